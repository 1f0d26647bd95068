"""Old typed constructors: `torch.npu.FloatTensor(3)`, `torch.npu.FloatStorage(3)`."""

from __future__ import annotations

from typing import Any

import torch
from torch.storage import _LegacyStorage

_KINDS = {
    "BFloat16": torch.bfloat16,
    "Bool": torch.bool,
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Short": torch.int16,
}


class _TypedMeta(type):
    dtype: torch.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and instance.device.type == "npu" and instance.dtype == cls.dtype

    def __repr__(cls) -> str:
        return f"<class '{cls.__name__}'>"


class _Typed(metaclass=_TypedMeta):
    dtype: torch.dtype

    def __new__(cls, *args: Any, device: Any = "npu") -> Any:
        if len(args) == 1 and isinstance(args[0], torch.Tensor):
            return args[0].to(device, cls.dtype)
        if len(args) == 1 and not isinstance(args[0], (int, torch.Size)):  # a sequence or an array of numbers
            return torch.tensor(args[0], dtype=cls.dtype, device=device)
        return torch.empty(*(args or (0,)), dtype=cls.dtype, device=device)


def _make(name: str, dtype: torch.dtype) -> Any:
    # NOTE: `tensor.type(torch.npu.HalfTensor)` reads the C name of the class, which is its `__name__`.
    contents = {"dtype": dtype, "__doc__": f"Tensors of {dtype} on the npu.", "__module__": "torch.npu"}
    return _TypedMeta(f"torch.npu.{name}", (_Typed,), {**contents, "__qualname__": name})


def _storage(name: str, dtype: torch.dtype) -> Any:
    """Return the class of typed storages of a dtype; PyTorch has deprecated these and warns when one is made."""
    contents = {
        "_dtype": dtype,
        "dtype": dtype,
        "__doc__": f"Storages of {dtype} on the npu.",
        "__module__": "torch.npu",
    }
    make: Any = type(_LegacyStorage)
    return make(name, (_LegacyStorage,), contents)


_FOUND = {f"{kind}Tensor": _make(f"{kind}Tensor", dtype) for kind, dtype in _KINDS.items()}
_FOUND |= {f"{kind}Storage": _storage(f"{kind}Storage", dtype) for kind, dtype in _KINDS.items()}
globals().update(_FOUND)
__all__ = list(_FOUND)
