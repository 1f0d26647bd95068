"""Operators that make tensors of nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.device.emulator import arguments, devices
from jumar.device.emulator.memory import require_shape, track
from jumar.device.emulator.plans import CPU_KEYS
from jumar.device.emulator.retag import take
from jumar.device.emulator.state import STATE


def _zeros(size: Any, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> torch.Tensor:
    """`_efficientzerotensor`: zeros with memory. PyTorch's saves the memory with a tensor that has none,
    which only kernels that know of it can read."""
    index = (devices.index_of_argument(device, None) if STATE.multiple else 0) or 0
    require_shape(size, dtype, None, index)
    return arguments.wrap(torch.zeros(list(size), dtype=dtype, device="cpu"), index)  # type: ignore[no-any-return]


def _making(name: str) -> Callable[..., Any]:
    """Kernel of `empty` or `empty_strided`, which every composed factory calls, with no detour on the way."""
    call = torch.library.get_kernel(name, "CPU").call_boxed

    def kernel(*args: Any, device: Any = None, pin_memory: bool | None = None, **kwargs: Any) -> torch.Tensor:
        if pin_memory:
            raise RuntimeError("Only dense CPU tensors can be pinned")
        index = 0
        if STATE.multiple or (device is not None and device.index):
            index = devices.index_of_argument(device, None) or 0
        require_shape(args[0] if args else kwargs["size"], kwargs.get("dtype"), None, index)
        result = call(CPU_KEYS, *args, **kwargs)
        npu = take(result)
        track(npu, index)
        return npu

    return kernel


KERNELS: dict[str, Callable[..., Any]] = {
    "aten::_efficientzerotensor": _zeros,
    "aten::empty.memory_format": _making("aten::empty.memory_format"),
    "aten::empty_strided": _making("aten::empty_strided"),
}
