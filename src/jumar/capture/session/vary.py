"""Runs a program under changed conditions that change only its rounding, to measure its noise floor.

    threads   another number of threads: sums are cut at other places
    kernels   other kernels where PyTorch has a choice: oneDNN, NNPACK, cuDNN and fused attention off
    ulp       floating inputs of every calculating operator moved by one unit in the last place

With `ulp` the signs of the moves are a function of the element's position alone, the same on every device.
It acts below the observer: a recording shows the inputs as the program gave them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from types import FrameType
from typing import Any, get_args

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from jumar.base.errors import UsageError
from jumar.capture.notes.operators import OperatorInfo, operator_info
from jumar.capture.notes.patches import Patches
from jumar.capture.plans.plan import Vary
from jumar.operators import has_any

OWN_WORK = ("jumar.capture.probes.", "jumar.capture.watch.notebook")
"""Modules that look at tensors; what they compute is no part of the program."""

LARGEST_TABLE = 1 << 22
"""Elements up to which a table of factors is kept for the next tensor of that size."""


@contextmanager
def varied(how: str) -> Iterator[None]:
    """Vary what runs inside the `with` block. Raises UsageError for an unknown way.

    Enter it before the recording starts; empty for no variation.
    """
    if how not in get_args(Vary):
        raise UsageError(f"a run is varied by threads, kernels or ulp; got {how!r}. Try --vary ulp.")
    ways: dict[str, Callable[[ExitStack], None]] = {"threads": _threads, "kernels": _kernels, "ulp": _ulp}
    with ExitStack() as stack:
        if how:
            ways[how](stack)
        yield


def _ulp(stack: ExitStack) -> None:
    stack.enter_context(UlpMode())  # type: ignore[no-untyped-call]  # PyTorch's class has no annotations


def _threads(stack: ExitStack) -> None:
    """Use another number of threads, also when the program sets one itself."""
    set_threads, before = torch.set_num_threads, torch.get_num_threads()

    def set_another(number: int) -> None:
        set_threads(other_number(number))

    patches = Patches()
    patches.replace(torch, "set_num_threads", set_another)
    stack.callback(set_threads, before)
    stack.callback(patches.restore)
    set_another(before)


def other_number(threads: int) -> int:
    """Return a number of threads that cuts sums at other places: one less, two instead of one."""
    return threads - 1 if threads > 2 else 3 - max(threads, 1)


def _kernels(stack: ExitStack) -> None:
    """Switch off those kernels for which PyTorch has another."""
    switches: tuple[tuple[Callable[[], bool], Callable[[bool], None]], ...] = (
        (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
        (torch._C._get_nnpack_enabled, torch._C._set_nnpack_enabled),
        (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),
        (torch._C._get_flash_sdp_enabled, torch._C._set_sdp_use_flash),
        (torch._C._get_mem_efficient_sdp_enabled, torch._C._set_sdp_use_mem_efficient),
    )
    for is_on, switch in switches:
        stack.callback(switch, is_on())
        switch(False)


class UlpMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # as above
    """Moves the floating inputs of every calculating operator by one unit in the last place, up or down."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_observers_work():
            return func(*args, **kwargs)
        info = operator_info(func)
        if is_untouched(info):
            return func(*args, **kwargs)
        written = {id(tensor) for value in info.written(args, kwargs) for tensor in _tensors(value)}
        args = tuple(_moved(value, written) for value in args)
        return func(*args, **{name: _moved(value, written) for name, value in kwargs.items()})


def is_untouched(info: OperatorInfo) -> bool:
    """Return whether an operator only moves, selects, compares, draws or creates: nothing is rounded there."""
    if info.collective or info.is_marker or info.name.startswith("higher_order::"):
        return True
    return has_any(info.name, "exact", "copies", "factory", "query", "random")


def is_observers_work() -> bool:
    """Return whether the operator that arrives at a dispatch mode is one that a probe runs, not the program.

    Probes run below the observer's own mode, so that the way up to the first frame that is neither PyTorch's nor
    the observer's leads past one of them.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith(OWN_WORK):
            return True
        if not name.startswith(("torch.", "jumar.capture.")):
            return False
        frame = frame.f_back
    return False


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [item for item in value if isinstance(item, torch.Tensor)] if isinstance(value, list | tuple) else []


def _moved(value: Any, written: set[int]) -> Any:
    if isinstance(value, torch.Tensor):
        return value if id(value) in written else moved(value)
    if isinstance(value, list) and not any(id(item) in written for item in value):
        return [_moved(item, written) for item in value]
    return value


def moved(tensor: torch.Tensor) -> torch.Tensor:
    """Return a floating strided tensor with every element moved by one unit in the last place; others as they are.

    An element x becomes x·(1 ± eps), which rounding leaves 1 unit away, or 2 or none next to a power of two.
    """
    if not tensor.is_floating_point() or tensor.layout is not torch.strided or not tensor.numel():
        return tensor
    if tensor.dtype not in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        return tensor
    factors = _factors(tensor.numel(), tensor.dtype, str(tensor.device))
    return tensor * factors.view(tensor.shape)


def _factors(num: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    return _kept(num, dtype, device) if num <= LARGEST_TABLE else _made(num, dtype, device)


def _made(num: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    import numpy as np

    from jumar.recording.sketch import mix

    up = (mix(np.arange(num, dtype=np.int64)) >> 13) & 1
    eps = torch.finfo(dtype).eps
    return (1.0 + eps * (2.0 * torch.from_numpy(up).double() - 1.0)).to(dtype).to(device)


_kept = lru_cache(maxsize=64)(_made)
