"""Make tensors of the emulated accelerator answer as CUDA tensors.

A tensor "on cuda" is a tensor of the emulated accelerator. What a script asks of it (`x.device`,
`x.is_cuda`, `x.type()`) is answered with CUDA; the emulator itself must see what it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from jumar.device.cuda_stand_in.names import answering_cuda, presented_as, redirected

_TYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}


class _TensorType(type):
    """Makes `torch.cuda.FloatTensor` and its kind: to build tensors, and for `isinstance`."""

    dtype: torch.dtype

    def __call__(cls, *args: Any, device: Any = None) -> torch.Tensor:
        """Build as `torch.FloatTensor` does: from data, or uninitialised from sizes."""
        if args and isinstance(args[0], torch.Tensor):
            return args[0].to(torch.device("npu", _index(device)), cls.dtype)
        return getattr(torch, cls.__name__)(*args).to(torch.device("npu", _index(device)))  # type: ignore[no-any-return]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Tensor) and _is_cuda(instance) and instance.dtype == cls.dtype


def _index(device: Any) -> int:
    return torch._utils._get_device_index(device, optional=True)


def _make_types() -> dict[str, type]:
    """Return the legacy tensor types of torch.cuda by their full names."""
    return {
        f"torch.cuda.{name}": _TensorType(name, (), {"dtype": dtype, "__module__": "torch.cuda"})
        for name, dtype in _TYPES.items()
    }


_physical_device: Callable[[torch.Tensor], torch.device] = torch._C.TensorBase.device.__get__


def _is_cuda(tensor: torch.Tensor) -> bool:
    with torch._C.DisableTorchFunction():
        return _physical_device(tensor).type == "npu"


def answer_device() -> None:
    """Lay the name of CUDA over the `device` that tensors have now."""
    tensor: Any = torch.Tensor
    read: Callable[[torch.Tensor], torch.device] = tensor.device.__get__

    def real_device(tensor: torch.Tensor) -> torch.device:
        # NOTE: under a mode, PyTorch's getter asks the mode, which looks `device` up on torch.Tensor again
        # and finds the answer that is meant for the script.
        with torch._C.DisableTorchFunction():
            return read(tensor)

    tensor.device = answering_cuda(real_device)


def _cuda_method(
    self: torch.Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> torch.Tensor:
    """Return this tensor on a CUDA device, itself when it is there already."""
    return self.to(torch.device("npu", _index(device)), non_blocking=non_blocking, memory_format=memory_format)


def _type_method(real: Callable[..., Any], types: dict[str, type]) -> Callable[..., Any]:
    @functools.wraps(real)
    def type_(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        """Return the name of this tensor's type, or a tensor of the given type."""
        if dtype is None:
            return real(self).replace("torch.npu.", "torch.cuda.")
        wanted = types.get(dtype, dtype) if isinstance(dtype, str) else dtype
        if not isinstance(wanted, _TensorType):
            return real(self, dtype, non_blocking=non_blocking, **kwargs)
        index = self.get_device() if _is_cuda(self) else _index(None)
        return self.to(torch.device("npu", index), wanted.dtype, non_blocking=non_blocking)

    return type_


def install() -> None:
    """Change `torch.Tensor` and the tensor types of torch.cuda."""
    types = _make_types()
    tensor: Any = torch.Tensor
    answer_device()
    tensor.is_cuda = property(_is_cuda, doc="Whether this tensor is on a CUDA device.")
    for name in ("_make_wrapper_subclass", "_make_subclass"):  # with what wrappers are made: no mode sees their device
        setattr(tensor, name, staticmethod(redirected(getattr(tensor, name))))
    tensor.cuda = presented_as(_cuda_method, tensor.cuda)
    tensor.type = _type_method(tensor.type, types)
    for name, made in types.items():
        setattr(torch.cuda, name.removeprefix("torch.cuda."), made)
