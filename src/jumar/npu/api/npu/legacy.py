"""Old typed constructors: `torch.npu.FloatTensor(3)`, `torch.npu.FloatStorage(3)`."""

from __future__ import annotations

from typing import Any

import torch
from torch.storage import _LegacyStorage

__all__ = [
    "BFloat16Storage",
    "BFloat16Tensor",
    "BoolStorage",
    "BoolTensor",
    "ByteStorage",
    "ByteTensor",
    "CharStorage",
    "CharTensor",
    "DoubleStorage",
    "DoubleTensor",
    "FloatStorage",
    "FloatTensor",
    "HalfStorage",
    "HalfTensor",
    "IntStorage",
    "IntTensor",
    "LongStorage",
    "LongTensor",
    "ShortStorage",
    "ShortTensor",
]


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


BFloat16Tensor = _make("BFloat16Tensor", torch.bfloat16)
BoolTensor = _make("BoolTensor", torch.bool)
ByteTensor = _make("ByteTensor", torch.uint8)
CharTensor = _make("CharTensor", torch.int8)
DoubleTensor = _make("DoubleTensor", torch.float64)
FloatTensor = _make("FloatTensor", torch.float32)
HalfTensor = _make("HalfTensor", torch.float16)
IntTensor = _make("IntTensor", torch.int32)
LongTensor = _make("LongTensor", torch.int64)
ShortTensor = _make("ShortTensor", torch.int16)


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


BFloat16Storage = _storage("BFloat16Storage", torch.bfloat16)
BoolStorage = _storage("BoolStorage", torch.bool)
ByteStorage = _storage("ByteStorage", torch.uint8)
CharStorage = _storage("CharStorage", torch.int8)
DoubleStorage = _storage("DoubleStorage", torch.float64)
FloatStorage = _storage("FloatStorage", torch.float32)
HalfStorage = _storage("HalfStorage", torch.float16)
IntStorage = _storage("IntStorage", torch.int32)
LongStorage = _storage("LongStorage", torch.int64)
ShortStorage = _storage("ShortStorage", torch.int16)
