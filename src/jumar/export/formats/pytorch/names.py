"""`Table`: what the names in PyTorch's pickles stand for: tensors that are read later, plain containers and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from jumar.export.formats.pytorch.machine import Builder, DamagedPickleError, ForbiddenNameError
from jumar.export.tensors import NO_VALUES, Deferred, Unusable, not_dense

_STORAGES = {
    "Double": torch.float64, "Float": torch.float32, "Half": torch.float16, "BFloat16": torch.bfloat16,
    "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8,
    "Bool": torch.bool, "ComplexDouble": torch.complex128, "ComplexFloat": torch.complex64,
    "Untyped": torch.uint8,
}  # fmt: skip
_QUANTIZED = {"QInt8": torch.int8, "QUInt8": torch.uint8, "QInt32": torch.int32, "QUInt4x2": torch.uint8}
_LONGEST = 1 << 62
"""A tensor has fewer elements than this."""


@dataclass(frozen=True, slots=True)
class StorageType:
    """A class of storages; `dtype` is that of its elements."""

    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Storage:
    """A storage of the file: `size_bytes` under `key`."""

    key: str
    dtype: torch.dtype
    size_bytes: int


MakeTensor = Callable[[Storage, torch.dtype, int, tuple[int, ...], tuple[int, ...]], Deferred | Unusable]
"""Returns the tensor of a dtype, offset (in elements), shape and strides in a storage."""


class Attributes(dict[str, Any]):
    """An object of which only the attributes are kept."""

    def take_state(self, state: Any) -> Attributes:
        """Take the attributes."""
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
            state = {**(state[0] or {}), **state[1]}
        if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
            raise DamagedPickleError("attributes without names")
        self.update(state)
        return self


@dataclass(slots=True)
class _NumpyType:
    code: str

    def take_state(self, state: Any) -> _NumpyType:
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in {"<", ">", "|", "="}:
            raise DamagedPickleError("a type of NumPy that is none")
        self.code = state[1] + self.code.lstrip("<>|=")
        return self

    @property
    def dtype(self) -> np.dtype[Any]:
        found = np.dtype(self.code)
        if found.kind not in "fcbiu" or found.fields is not None:
            raise ForbiddenNameError(f"numpy.dtype({self.code!r})")
        return found


@dataclass(slots=True)
class _NumpyArray:
    """An empty array that gets its values by its state."""

    found: Any = None

    def take_state(self, state: Any) -> torch.Tensor:
        if not isinstance(state, tuple) or len(state) != 5 or not isinstance(state[2], _NumpyType):
            raise DamagedPickleError("an array of NumPy that is none")
        _, shape, kind, is_fortran, data = state
        return _tensor_of(data, kind.dtype, shape, bool(is_fortran))


def _tensor_of(data: Any, dtype: np.dtype[Any], shape: Any, is_fortran: bool) -> torch.Tensor:
    if not isinstance(data, (bytes, bytearray)):
        raise DamagedPickleError("an array without its bytes")
    flat = np.frombuffer(data, dtype=dtype)
    array = flat.reshape(_whole(shape), order="F" if is_fortran else "C")
    return torch.from_numpy(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))).reshape(array.shape))


def _scalar(kind: Any, data: Any = b"") -> Any:
    if not isinstance(kind, _NumpyType) or not isinstance(data, bytes) or len(data) != kind.dtype.itemsize:
        raise DamagedPickleError("a number of NumPy that is none")
    return np.frombuffer(data, dtype=kind.dtype)[0].item()


def _dtype(code: Any, *_: Any) -> _NumpyType:
    if not isinstance(code, str) or len(code) > 8:
        raise DamagedPickleError("a type of NumPy that is none")
    return _NumpyType(code)


def _whole(value: Any) -> tuple[int, ...]:
    if isinstance(value, (list, tuple)) and all(type(item) is int and 0 <= item < _LONGEST for item in value):
        return tuple(value)
    raise DamagedPickleError("a shape that is none")


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in {"latin1", "latin-1", "utf-8"}:
        raise DamagedPickleError("bytes that are none")
    return text.encode(encoding)


def _bytes(items: Any) -> bytes:
    """Return bytes of bytes or of numbers; a number alone would ask for so much memory."""
    if not isinstance(items, (bytes, bytearray, list, tuple)):
        raise DamagedPickleError("bytes that are none")
    return bytes(items)


def _plain(*_: Any, **__: Any) -> Attributes:
    return Attributes()


def _pairs(items: Any = (), *_: Any) -> dict[Any, Any]:
    return dict(items) if isinstance(items, (list, tuple, dict)) else {}


def _odd(kind: str, remedy: str = "to_dense()") -> Builder:
    return Builder(kind, lambda *_, **__: not_dense(kind, remedy))


def _sparse(layout: Any = "sparse", *_: Any) -> Unusable:
    return not_dense(str(layout).removeprefix("torch."))


def _path(*parts: Any) -> str:
    return "/".join(str(part) for part in parts)


_BUILDERS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _pairs,
    "collections.Counter": _pairs,
    "collections.defaultdict": lambda *_: {},
    "builtins.set": lambda items=(): set(items),
    "builtins.frozenset": lambda items=(): frozenset(items),
    "builtins.list": lambda items=(): list(items),
    "builtins.bytes": lambda items=b"": _bytes(items),
    "builtins.bytearray": lambda data=b"", encoding=None: bytearray(_encode(data) if encoding else _bytes(data)),
    "builtins.complex": lambda real, imaginary=0.0: complex(real, imaginary),
    "builtins.slice": lambda *ends: list(ends),
    "_codecs.encode": _encode,
    "argparse.Namespace": _plain,
    "types.SimpleNamespace": _plain,
    "copyreg._reconstructor": lambda cls, *_: cls.build() if isinstance(cls, Builder) else _plain(),
    "pathlib.PosixPath": _path,
    "pathlib.WindowsPath": _path,
    "pathlib.PurePosixPath": _path,
    "torch.Size": lambda items=(): _whole(items),
    "torch.device": lambda kind="cpu", index=None: str(kind) if index is None else f"{kind}:{index}",
    "torch.serialization._get_layout": lambda name: name,
    "torch._utils._rebuild_parameter": lambda data, *_: data,
    "torch._utils._rebuild_parameter_with_state": lambda data, *_: data,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_meta_tensor_no_storage": lambda *_: NO_VALUES,
    "numpy.dtype": _dtype,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy.core.multiarray._reconstruct": lambda *_: _NumpyArray(),
    "numpy._core.multiarray._reconstruct": lambda *_: _NumpyArray(),
}
_VALUES = ("builtins.int", "builtins.float", "builtins.dict", "builtins.str", "builtins.object", "numpy.ndarray",
           "torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")  # fmt: skip
"""Names that stand as arguments and are never called."""


@dataclass(slots=True)
class Table:
    """The names of one file. `make` gives the tensors."""

    make: MakeTensor
    more: dict[str, Any] = field(default_factory=dict)
    """Further names, for a file of another writer."""

    def __call__(self, name: str) -> Any:
        """Return what a name stands for. Raises ForbiddenNameError."""
        name = name.replace("__builtin__.", "builtins.", 1)
        if name in self.more:
            return self.more[name]
        if name in _BUILDERS:
            return Builder(name, _BUILDERS[name])
        if name in _VALUES:
            return name
        if name.startswith("torch."):
            return self._of_torch(name)
        if name.startswith("numpy.dtypes.") or name == "torch_npu.utils.storage._rebuild_npu_tensor":
            return Builder(name, self._npu if name.startswith("torch_npu") else _dtype)
        raise ForbiddenNameError(name)

    def _of_torch(self, name: str) -> Any:
        last = name.rpartition(".")[2]
        found = getattr(torch, last, None)
        if isinstance(found, torch.dtype) and name == f"torch.{last}":
            return found
        kind = last.removesuffix("Storage")
        if last.endswith("Storage") and kind in _STORAGES | _QUANTIZED and name.count(".") <= 2:
            return StorageType((_STORAGES | _QUANTIZED)[kind])
        own: dict[str, Callable[..., Any]] = {
            "torch._utils._rebuild_tensor": self._v1,
            "torch._utils._rebuild_tensor_v2": self._v2,
            "torch._utils._rebuild_tensor_v3": self._v3,
            "torch._tensor._rebuild_from_type_v2": self._of_type,
            "torch._utils._rebuild_device_tensor_from_cpu_tensor": lambda data, *_: data,
            "torch._utils._rebuild_device_tensor_from_numpy": lambda data, *_: data,
            "torch._utils._rebuild_xla_tensor": lambda data, *_: data,
        }
        if name in own:
            return Builder(name, own[name])
        if name == "torch._utils._rebuild_qtensor":
            return _odd("quantized", "dequantize()")
        if name in {"torch._utils._rebuild_nested_tensor", "torch.nested._internal.nested_tensor._rebuild_njt"}:
            return _odd("nested", "unbind()")
        raise ForbiddenNameError(name)

    def _v1(self, storage: Any, offset: Any, size: Any, stride: Any) -> Any:
        return self._tensor(storage, None, offset, size, stride)

    def _v2(self, storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Any:
        return self._tensor(storage, None, offset, size, stride)

    def _v3(self, storage: Any, offset: Any, size: Any, stride: Any, _g: Any, _h: Any, dtype: Any, *_: Any) -> Any:
        if not isinstance(dtype, torch.dtype):
            raise DamagedPickleError("a tensor without a dtype")
        return self._tensor(storage, dtype, offset, size, stride)

    def _npu(self, storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Any:
        """Do what torch_npu's function does, without an NPU: the storage holds the plain format."""
        return self._tensor(storage, None, offset, size, stride)

    def _of_type(self, function: Any, kind: Any, arguments: Any, _state: Any) -> Any:
        if kind not in _VALUES or not isinstance(function, Builder) or not isinstance(arguments, tuple):
            raise ForbiddenNameError(str(kind) if isinstance(kind, str) else "a subclass of torch.Tensor")
        return function.build(*arguments)

    def _tensor(self, storage: Any, dtype: torch.dtype | None, offset: Any, size: Any, stride: Any) -> Any:
        if not isinstance(storage, Storage) or type(offset) is not int or offset < 0:
            raise DamagedPickleError("a tensor without its storage")
        shape, strides = _whole(size), _whole(stride)
        if len(shape) != len(strides) or math.prod(shape) >= _LONGEST:
            raise DamagedPickleError("a tensor whose shape and strides do not fit")
        return self.make(storage, dtype or storage.dtype, offset, shape, strides)


def storage_of(identity: Any) -> Storage:
    """Return the storage that a persistent identity of torch.save names. Raises DamagedPickleError."""
    if not isinstance(identity, tuple) or len(identity) not in {5, 6} or identity[0] != "storage":
        raise DamagedPickleError("a value outside that is no storage")
    kind, key, _, count = identity[1:5]
    if not isinstance(kind, StorageType) or not isinstance(key, str) or type(count) is not int or count < 0:
        raise DamagedPickleError("a storage that is none")
    return Storage(key, kind.dtype, count * kind.dtype.itemsize)
