"""The overflow flag of the device, and the collection of overflows.

The flag. Where the chip saturates, an operator whose inputs are finite and whose result would have been Inf or
NaN raises it, and it stays up until it is cleared; training with a dynamic loss scale reads it after each
backward. Under IEEE arithmetic nothing raises it: Inf and NaN are in the results for all to see.

Collection. `set_mode` names what is collected, on any chip: overflows of AI Core operators, of atomic additions,
or both. Each is told to those who `watch`. While no mode is set on a chip without saturation, no operator
is looked at and none pays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

from jumar.base.errors import DeviceError
from jumar.npu.core import plans
from jumar.npu.core.state import STATE

Kind = Literal["aicore", "atomic"]
Mode = Literal["aicore_overflow", "atomic_overflow", "all"]

_KINDS: dict[Mode, tuple[Kind, ...]] = {
    "aicore_overflow": ("aicore",),
    "atomic_overflow": ("atomic",),
    "all": ("aicore", "atomic"),
}


@dataclass(frozen=True, slots=True)
class Overflow:
    """One operator call that overflowed though its inputs were finite."""

    operator: str
    kind: Kind


@dataclass(slots=True)
class _Status:
    raised: Overflow | None = None
    mode: Mode | None = None
    is_dumping: bool = False
    watchers: list[Callable[[Overflow], None]] = field(default_factory=list)


_status = _Status()


def flag() -> Overflow | None:
    """Return the first overflow since the flag was cleared, None while it is down."""
    return _status.raised


def clear() -> None:
    """Lower the flag."""
    _status.raised = None


def mode() -> Mode | None:
    """Return what is collected; None: nothing."""
    return _status.mode


def set_mode(wanted: Mode | None) -> None:
    """Collect overflows of this mode from now on, None: none.

    Raises DeviceError for a mode that is none, for another than `all` from Ascend910B1 on, and while data of
    operators is dumped: the device does one or the other.
    """
    if wanted is not None:
        _check(wanted)
    _status.mode = wanted
    plans.reset()


def _check(wanted: str) -> None:
    if wanted not in get_args(Mode):
        raise DeviceError(f"an overflow mode must be one of {', '.join(get_args(Mode))}; got {wanted!r}.")
    if wanted != "all" and STATE.profile.is_aclnn_default:
        raise DeviceError(f"on {STATE.soc} the overflow mode must be 'all'; got {wanted!r}.")
    if _status.is_dumping:
        raise DeviceError("overflows and operator data cannot be collected at once: end the data dump first.")


def set_dumping(active: bool) -> None:
    """Say that operator data is dumped. Raises DeviceError while overflows are collected."""
    if active and _status.mode is not None:
        raise DeviceError(
            f"overflows and operator data cannot be collected at once: end the overflow mode {_status.mode!r} first."
        )
    _status.is_dumping = active


@contextlib.contextmanager
def watch(watcher: Callable[[Overflow], None]) -> Iterator[None]:
    """Tell `watcher` every overflow of the mode that is set, within the block and in all threads."""
    _status.watchers.append(watcher)
    try:
        yield
    finally:
        _status.watchers.remove(watcher)


def record(operator: str, kind: Kind, saturating: bool) -> None:
    """Note that an operator overflowed: raise the flag where the chip saturates, tell those who collect."""
    found = Overflow(operator, kind)
    if saturating and _status.raised is None:
        _status.raised = found
    if _status.mode is not None and kind in _KINDS[_status.mode]:
        for watcher in tuple(_status.watchers):
            watcher(found)
