"""Words about aten operators that need no torch: views, bytes of a tensor, bytes an operator moves.

`VIEW_OPERATORS` are those whose schema returns an alias of an argument that it does not write (read
off the schemas of PyTorch 2.13): they change shape and stride and start nothing on a device.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from jumar.recording.schema import CallRow, TensorRow

_VIEWS = """
    _conj _neg_view _reshape_alias _unsafe_view adjoint alias as_strided broadcast_to chunk conj detach diagonal
    expand expand_as flatten hsplit imag lift_fresh linalg_diagonal mH mT moveaxis movedim narrow numpy_T permute
    positive real reshape select slice slice_inverse split split_with_sizes squeeze swapaxes swapdims t tensor_split
    transpose unbind unflatten unfold unsqueeze unsafe_chunk unsafe_split unsafe_split_with_sizes view view_as
    view_as_complex view_as_real vsplit
"""
VIEW_OPERATORS = frozenset(_VIEWS.split())
"""Base names. `_unsafe_view` and `unsafe_*` hide their alias from autograd and copy nothing either."""

ALLOCATIONS = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted", "resize_", "set_"}
)
"""Operators that reserve or assign memory and start no kernel."""

READS_TO_HOST = frozenset({"_local_scalar_dense", "item", "is_nonzero", "equal"})
"""Operators that return a number to Python, so the host waits for the device."""

COPIES = frozenset({"clone", "contiguous", "_to_copy", "copy_", "_copy_from", "_reshape_copy"})
"""Operators whose whole work is to move a tensor's elements to another place, layout or dtype."""

GATHERS = frozenset({"embedding", "gather", "index", "index_select", "take"})
"""Operators that read only as much of their first argument as they return."""

DTYPE_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "bool": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float16": 2, "bfloat16": 2,
        "int16": 2, "uint16": 2, "float32": 4, "int32": 4, "uint32": 4, "complex32": 4, "float64": 8, "int64": 8,
        "uint64": 8, "complex64": 8, "complex128": 16,
    }
)  # fmt: skip
"""Bytes of one element; a dtype that is not here counts 4."""

HALF_DTYPES = frozenset({"float16", "bfloat16"})


@lru_cache(maxsize=4096)
def base_name(name: str) -> str:
    """Return `add` for `aten::add.Tensor`; another namespace stays in front (`torchvision::nms`)."""
    bare = name.removeprefix("aten::")
    namespace, separator, rest = bare.rpartition("::")
    return f"{namespace}{separator}{rest.split('.')[0]}"


def is_in_place(name: str) -> bool:
    """Return whether an operator writes its first argument: `aten::add_.Tensor`, `aten::_foreach_mul_.Scalar`."""
    base = base_name(name)
    return base.endswith("_") and not base.endswith("__")


def num_elements(shape: tuple[int, ...]) -> int:
    """Return the product of `shape`; 1 for a 0-dimensional tensor."""
    count = 1
    for size in shape:
        count *= size
    return count


def stored_elements(tensor: TensorRow) -> int:
    """Return how many different elements a tensor has: an expanded dimension (stride 0) counts once."""
    if len(tensor.stride) != len(tensor.shape):
        return num_elements(tensor.shape)
    kept = tuple(size if stride else min(size, 1) for size, stride in zip(tensor.shape, tensor.stride, strict=True))
    return num_elements(kept)


def size_bytes(tensor: TensorRow) -> int:
    """Return the bytes of a tensor's different elements."""
    return stored_elements(tensor) * DTYPE_BYTES.get(tensor.dtype, 4)


def contiguous_bytes(tensor: TensorRow) -> int:
    """Return the bytes a tensor takes when every element of its shape is written out."""
    return num_elements(tensor.shape) * DTYPE_BYTES.get(tensor.dtype, 4)


def tensor_key(tensor: TensorRow) -> tuple[int, int, tuple[int, ...], tuple[int, ...], str]:
    """Return what tells one view of a storage from another within a step."""
    return tensor.storage, tensor.storage_offset, tensor.shape, tensor.stride, tensor.dtype


def traffic_bytes(row: CallRow) -> int:
    """Return the bytes an operator must at least read and write: each input once, each output once.

    Nothing for views and allocations. In-place operators that return nothing (`_foreach_*_`) write
    their first argument, `input.0` or `input.0.*`. Caches and workspaces are not counted, so this
    is a lower bound for operators that go over their input several times.
    """
    base = base_name(row.name)
    if base in VIEW_OPERATORS or base in ALLOCATIONS:
        return 0
    inputs = {tensor_key(tensor): size_bytes(tensor) for tensor in row.inputs}
    if base in {"copy_", "_copy_from"} and row.inputs:
        inputs.pop(tensor_key(row.inputs[0]), None)
    if base in GATHERS and row.inputs and row.outputs:
        inputs[tensor_key(row.inputs[0])] = size_bytes(row.outputs[0])
    if row.outputs or not is_in_place(row.name):
        written = sum(size_bytes(tensor) for tensor in row.outputs)
    else:
        written = sum(size_bytes(tensor) for tensor in row.inputs if is_first_argument(tensor))
    return sum(inputs.values()) + written


def is_first_argument(tensor: TensorRow) -> bool:
    """Return whether an input is the first argument or an item of it."""
    return tensor.name == "input.0" or tensor.name.startswith("input.0.")


def argument(row: CallRow, name: str) -> Any:
    """Return the value of a non-tensor argument, or None when the row does not have it."""
    values = _parse_arguments(row.arguments)
    return values.get(name)


@lru_cache(maxsize=8192)
def _parse_arguments(text: str) -> Mapping[str, Any]:
    if not text:
        return MappingProxyType({})
    try:
        values = json.loads(text)
    except json.JSONDecodeError:
        return MappingProxyType({})
    return MappingProxyType(values if isinstance(values, dict) else {})
