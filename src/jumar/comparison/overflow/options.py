"""`OverflowOptions`: what to look for, and the check that the chip can detect it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from jumar.base.errors import DeviceError, UsageError
from jumar.recording import RunInfo
from jumar.soc.profiles import get_soc

Mode = Literal["aicore_overflow", "atomic_overflow", "all"]
"""Names of Ascend's overflow detection: operators that compute, atomic additions, or both."""

NUM_FRAMES = 21
"""Operators shown before an origin, the origin among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowOptions:
    """What `find_overflow` looks for. Raises UsageError for an unknown mode or a number of frames below 1."""

    mode: Mode = "all"
    steps: tuple[int, int] | None = None
    """First step and the step after the last; None for all."""
    num_frames: int = NUM_FRAMES

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise UsageError(f"an overflow mode must be one of {', '.join(get_args(Mode))}; got {self.mode!r}.")
        if self.num_frames < 1:
            raise UsageError(f"the number of frames must be at least 1; got {self.num_frames}. Try --frames 21.")


def check_mode(mode: Mode, soc: str) -> None:
    """Raise UsageError when `mode` is not `all` on a chip that detects all kinds together only (from Ascend910B1 on).

    `soc` is empty for a run without an NPU, in which every mode is a choice of what is shown.
    """
    if mode != "all" and soc and _detects_all_only(soc):
        raise UsageError(f'on {soc} the overflow mode must be "all"; got "{mode}". Leave --mode out.')


def check_exclusive(mode: Mode, values: str) -> None:
    """Raise UsageError when whole tensors are asked for while a device mode is on: the device does one or the other."""
    if values == "tensors":
        raise UsageError(
            f"overflows (--mode {mode}) and the data of all operators (--values tensors) cannot be collected at once; "
            "find the operator first, then record its tensors."
        )


def saturates(info: RunInfo) -> bool:
    """Return whether the run's device gives the largest number instead of Inf for a result that overflows."""
    if not info.device.startswith("npu") or not info.soc:
        return False
    try:
        profile = get_soc(info.soc)
    except DeviceError:
        return False
    return profile.overflow == "saturation"


def _detects_all_only(soc: str) -> bool:
    try:
        return get_soc(soc).is_aclnn_default
    except DeviceError:
        return False
