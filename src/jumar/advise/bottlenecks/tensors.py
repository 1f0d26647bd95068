"""Bytes of a recorded tensor, and the bytes, elements and arguments of a recorded call."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from jumar.operators import dtypes, has, has_any, is_foreach, is_in_place, short_name, writes
from jumar.operators.flops import flops as flops_of_shapes
from jumar.recording.schema import CallRow, TensorRow


def stored_elements(tensor: TensorRow) -> int:
    """Return how many different elements a tensor has: an expanded dimension (stride 0) counts once."""
    if len(tensor.stride) != len(tensor.shape):
        return math.prod(tensor.shape)
    return math.prod(size if stride else min(size, 1) for size, stride in zip(tensor.shape, tensor.stride, strict=True))


def size_bytes(tensor: TensorRow) -> int:
    """Return the bytes of a tensor's different elements; an unknown dtype counts 4 an element."""
    return stored_elements(tensor) * dtypes.size_bytes(tensor.dtype)


def contiguous_bytes(tensor: TensorRow) -> int:
    """Return the bytes a tensor takes when every element of its shape is written out."""
    return math.prod(tensor.shape) * dtypes.size_bytes(tensor.dtype)


def is_half(dtype: str) -> bool:
    """Return whether `dtype` is float16 or bfloat16."""
    known = dtypes.dtype(dtype)
    return known is not None and known.is_half


def tensor_key(tensor: TensorRow) -> tuple[int, int, tuple[int, ...], tuple[int, ...], str]:
    """Return what identifies one view of a storage within a step."""
    return tensor.storage, tensor.storage_offset, tensor.shape, tensor.stride, tensor.dtype


def is_view(row: CallRow) -> bool:
    """Return whether a call only shows memory that was there before: it starts nothing on a device.

    `reshape`, `flatten` and `contiguous` may copy. They are views where the result lies in the input's storage.
    """
    name = row.name
    if has(name, "inplace_view"):
        return not allocates(name)
    if not has(name, "aliases"):
        return False
    if not has(name, "may_copy"):
        return True
    if row.inputs and row.outputs and row.inputs[0].storage:
        return row.inputs[0].storage == row.outputs[0].storage
    return not has(name, "copies")


def allocates(name: str) -> bool:
    """Return whether an operator reserves or assigns memory and starts no kernel."""
    return has_any(name, "uninitialised", "adopting")


class Copy(NamedTuple):
    """The tensors of a call that only moves elements."""

    position: int
    """Which input is copied."""
    source: TensorRow
    target: TensorRow
    into_input: bool
    """Whether the target is an input of the call, as in `copy_`."""


def copy_of(row: CallRow) -> Copy | None:
    """Return what `row` copies; None for an operator that is no copy, and for one of lists of tensors."""
    if not row.inputs or not has(row.name, "copies") or is_foreach(row.name):
        return None
    if is_in_place(row.name) and len(row.inputs) > 1:
        return Copy(1, row.inputs[1], row.inputs[0], into_input=True)
    if short_name(row.name) == "_copy_from" and len(row.inputs) > 1:
        return Copy(0, row.inputs[0], row.inputs[1], into_input=True)
    return Copy(0, row.inputs[0], row.outputs[0], into_input=False) if row.outputs else None


def traffic_bytes(row: CallRow) -> int:
    """Return the bytes an operator must at least read and write: each input once, each output once.

    Nothing for views and allocations. In-place operators that return nothing (`_foreach_*_`) write
    their first argument, `input.0` or `input.0.*`. Caches and workspaces are not counted, so this
    is a lower bound for operators that go over their input several times.
    """
    name = row.name
    if is_view(row) or allocates(name):
        return 0
    inputs = {tensor_key(tensor): size_bytes(tensor) for tensor in row.inputs}
    copy = copy_of(row)
    if copy is not None and copy.into_input:
        inputs.pop(tensor_key(copy.target), None)
    elif is_in_place(name) and has(name, "overwriting"):
        for tensor in filter(is_first_argument, row.inputs):
            inputs.pop(tensor_key(tensor), None)
    if has(name, "gathers") and row.inputs and row.outputs:
        inputs[tensor_key(row.inputs[0])] = size_bytes(row.outputs[0])
    if row.outputs or not is_in_place(name):
        written = sum(size_bytes(tensor) for tensor in row.outputs)
    else:
        written = sum(size_bytes(tensor) for tensor in row.inputs if is_first_argument(tensor))
    return sum(inputs.values()) + written


def written_storages(row: CallRow) -> set[int]:
    """Return the storages an operator writes: its outputs', and those of the arguments it writes."""
    written = {tensor.storage for tensor in row.outputs}
    positions = {0, *writes(row.name)} if is_in_place(row.name) else writes(row.name)
    if positions:
        heads = tuple(f"input.{position}" for position in positions)
        written |= {tensor.storage for tensor in row.inputs if ".".join(tensor.name.split(".")[:2]) in heads}
    return written


def flops(row: CallRow) -> int | None:
    """Return the floating-point operations of `row`; None where its operator has no formula or lacks shapes."""
    if not has_any(row.name, "product", "convolution", "attention"):
        return None
    inputs, outputs = ([tensor.shape for tensor in tensors] for tensors in (row.inputs, row.outputs))
    return flops_of_shapes(row.name, inputs, outputs, arguments(row))


def is_first_argument(tensor: TensorRow) -> bool:
    """Return whether an input is the first argument or an item of it."""
    return tensor.name == "input.0" or tensor.name.startswith("input.0.")


def arguments(row: CallRow) -> Mapping[str, Any]:
    """Return the non-tensor arguments of a call, by name."""
    return _parse_arguments(row.arguments)


@lru_cache(maxsize=8192)
def _parse_arguments(text: str) -> Mapping[str, Any]:
    if not text:
        return MappingProxyType({})
    try:
        values = json.loads(text)
    except json.JSONDecodeError:
        return MappingProxyType({})
    return MappingProxyType(values if isinstance(values, dict) else {})
