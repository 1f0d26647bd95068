"""Tell listeners about every operator that runs on the emulated device.

    with listen(lambda event: print(event.operator)):
        ...

Nobody listening costs nothing: the kernels look at one flag. Only operators that the device itself runs
are told; views that PyTorch makes in C++ are not.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from jumar.npu.core.overloads import size_bytes
from jumar.npu.core.state import STATE

Transfer = Literal["", "host-to-device", "device-to-host"]


@dataclass(frozen=True, slots=True)
class OperatorEvent:
    """One call. The tensors are the caller's: look, do not keep or write."""

    operator: str
    """`aten::add.Tensor`."""
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    result: Any
    start_ns: int
    """Host clock, `time.perf_counter_ns`."""
    end_ns: int
    transfer: Transfer = ""
    """Set for copies between the host and the device."""
    transfer_bytes: int = 0
    device_index: int = 0
    """Logical device of the results."""


Listener = Callable[[OperatorEvent], None]


@contextlib.contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Call `listener` with an `OperatorEvent` after every operator within the block, in all threads."""
    STATE.listeners.append(listener)
    STATE.refresh()
    try:
        yield
    finally:
        STATE.listeners.remove(listener)
        STATE.refresh()


def tell(
    operator: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, start_ns: int, index: int = 0
) -> None:
    """Give the listeners the event of a call that has just ended."""
    end_ns = time.perf_counter_ns()
    transfer, size = _transfer(operator, args, result)
    event = OperatorEvent(operator, args, kwargs, result, start_ns, end_ns, transfer, size, index)
    for listener in tuple(STATE.listeners):
        listener(event)


def _transfer(operator: str, args: Sequence[Any], result: Any) -> tuple[Transfer, int]:
    if operator == "aten::_local_scalar_dense":
        return "device-to-host", args[0].element_size()
    if operator not in ("aten::_to_copy", "aten::copy_") or not isinstance(result, torch.Tensor):
        return "", 0
    source = args[0] if operator == "aten::_to_copy" else args[1]
    if not isinstance(source, torch.Tensor) or source.is_cpu == result.is_cpu:
        return "", 0
    return ("host-to-device" if source.is_cpu else "device-to-host"), size_bytes(source)
