"""Warn about calls that HCCL refuses: Gloo takes them, so a script would first fail on the machine.

Sources: the Ascend migration guide for PyTorch (1, 2, 4 or 8 devices of a machine; int8, int32, float16 and
float32), which is of the first generation's time; HCCL's manual for the types that reductions take from the
second generation on.
"""

from __future__ import annotations

import os
import warnings

import torch

from jumar.npu.core.state import STATE

NUM_DEVICES = (1, 2, 4, 8)
FIRST_GENERATION = frozenset({torch.int8, torch.int32, torch.float16, torch.float32})
REDUCIBLE = FIRST_GENERATION | {torch.int16, torch.int64, torch.bfloat16}
"""Types of reductions from Ascend910B1 on; moving data takes any type there."""

_said: set[tuple[str, str]] = set()


def _complain(subject: str, sentence: str) -> None:
    """Warn once a process and chip; raise where the policy for unsupported operators says so; or stay silent."""
    policy = STATE.settings.unsupported
    if policy == "error":
        raise RuntimeError(sentence)
    if policy == "warn" and (STATE.soc, subject) not in _said:
        _said.add((STATE.soc, subject))
        warnings.warn(sentence, stacklevel=5)


def check_ranks(size: int) -> None:
    """Complain about a number of devices of one machine that HCCL does not connect."""
    local = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if local not in NUM_DEVICES:
        _complain(
            f"{local} ranks",
            f"HCCL connects 1, 2, 4 or 8 devices of a machine; this group has {local} ranks on it. Gloo carries it on "
            "the emulated NPU; start another number of processes for the real one.",
        )


def check_dtype(collective: str, dtype: torch.dtype, *, reduces: bool) -> None:
    """Complain about tensors of a type that HCCL does not send, or not reduce, on this chip."""
    first = STATE.profile.family in ("A1", "inference")
    allowed = FIRST_GENERATION if first else REDUCIBLE if reduces else None
    if allowed is None or dtype in allowed or (first and not reduces and dtype is torch.int64):
        return
    names = ", ".join(sorted(str(item).removeprefix("torch.") for item in allowed))
    _complain(
        f"{collective} {dtype}",
        f"HCCL's {collective} takes {names} on {STATE.soc}; got {str(dtype).removeprefix('torch.')}. Gloo carries it "
        "on the emulated NPU; cast the tensor for the real one.",
    )
