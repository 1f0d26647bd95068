"""Rows as a column table. Imports PyArrow: import this module only where rows are written.

The table is built column by column, nested lists as offsets and flat children, because a conversion
value by value costs more than the run that is recorded (a GPT step has about 1,000 rows and 5,000
tensors).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from operator import attrgetter
from typing import Any

import pyarrow as pa

from jumar.recording.schema import CallRow, TensorRow

_SHAPE = pa.list_(pa.int64())
TENSOR_TYPES: dict[str, pa.DataType] = {
    "name": pa.string(),
    "shape": _SHAPE,
    "dtype": pa.string(),
    "device": pa.string(),
    "stride": _SHAPE,
    "storage_offset": pa.int64(),
    "contiguous": pa.bool_(),
    "format": pa.string(),
    "storage": pa.int64(),
    "minimum": pa.float64(),
    "maximum": pa.float64(),
    "mean": pa.float64(),
    "l2": pa.float64(),
    "num_nan": pa.int64(),
    "num_inf": pa.int64(),
    "sketch": pa.binary(),
    "hash": pa.string(),
}
_SIDES = ("inputs", "outputs")
TENSORS = pa.list_(pa.struct(list(TENSOR_TYPES.items())))
ROW_TYPES: dict[str, pa.DataType] = {
    "step": pa.int32(),
    "rank": pa.int32(),
    "seq": pa.int32(),
    "kind": pa.string(),
    "phase": pa.string(),
    "module_path": pa.string(),
    "module_type": pa.string(),
    "name": pa.string(),
    "occurrence": pa.int32(),
    "source": pa.string(),
    "arguments": pa.string(),
    "autocast": pa.string(),
    "rng": pa.string(),
    "draws": pa.bool_(),
    "is_view": pa.bool_(),
    "start_us": pa.float64(),
    "duration_us": pa.float64(),
    "inputs": TENSORS,
    "outputs": TENSORS,
}
_PLAIN = tuple(name for name in ROW_TYPES if name not in _SIDES)
TABLE_SCHEMA = pa.schema(list(ROW_TYPES.items()))
"""Columns of a step file: the fields of `CallRow`, its tensors as lists of structs."""


@cache
def text_columns() -> Sequence[str]:
    """Return the paths, in a Parquet file, of the columns whose values repeat: texts and shapes."""
    repeats = {pa.string(), pa.binary()}
    plain = [name for name, kind in ROW_TYPES.items() if kind in repeats]
    nested = [
        f"{side}.list.element.{name}{'.list.element' if kind == _SHAPE else ''}"
        for side in _SIDES
        for name, kind in TENSOR_TYPES.items()
        if kind in repeats or kind == _SHAPE or name in {"storage", "storage_offset"}
    ]
    return plain + nested


def rows_to_table(rows: Sequence[CallRow]) -> pa.Table:
    """Return the rows as a table with `TABLE_SCHEMA`."""
    sides = {
        side: tensor_column(
            [tensor.name for row in rows for tensor in getattr(row, side)],
            [tensor for row in rows for tensor in getattr(row, side)],
            [len(getattr(row, side)) for row in rows],
        )
        for side in _SIDES
    }
    return make_table({name: list(map(attrgetter(name), rows)) for name in _PLAIN}, **sides)


def make_table(columns: Mapping[str, Sequence[Any]], *, inputs: pa.Array, outputs: pa.Array) -> pa.Table:
    """Return a table of plain columns by name, and the two columns of tensors made by `tensor_column`."""
    arrays = [pa.array(columns[name], ROW_TYPES[name]) for name in _PLAIN]
    return pa.Table.from_arrays([*arrays, inputs, outputs], schema=TABLE_SCHEMA)


def tensor_column(names: Sequence[str], tensors: Sequence[TensorRow], lengths: Sequence[int]) -> pa.Array:
    """Return the tensors of all rows, `lengths` of them to each row, under `names`.

    A tensor object that occurs several times (what one row gives the next one takes) is converted
    once; its own name does not matter.
    """
    numbers: dict[int, int] = {}
    unique: list[TensorRow] = []
    for tensor in tensors:
        if id(tensor) not in numbers:
            numbers[id(tensor)] = len(unique)
            unique.append(tensor)
    children = [_tensor_child(name, kind, unique) for name, kind in TENSOR_TYPES.items()]
    fields = list(TENSORS.value_type)
    once = pa.StructArray.from_arrays(children, fields=fields)
    each = once.take(pa.array([numbers[id(tensor)] for tensor in tensors], pa.int32())).flatten()
    each[0] = pa.array(names, pa.string())
    offsets = pa.array(accumulate(lengths, initial=0), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(each, fields=fields), type=TENSORS)


def _tensor_child(name: str, kind: pa.DataType, flat: Sequence[TensorRow]) -> pa.Array:
    values = list(map(attrgetter(name), flat))
    if kind != _SHAPE:
        return pa.array(values, kind)
    return shape_column(values)


def shape_column(shapes: Sequence[Sequence[int]]) -> pa.Array:
    """Return a column of shapes, or of strides."""
    numbers = pa.array([number for shape in shapes for number in shape], pa.int64())
    return pa.ListArray.from_arrays(_offsets(shapes), numbers, type=_SHAPE)


def _offsets(lists: Sequence[Sequence[Any]]) -> pa.Array:
    return pa.array(accumulate(map(len, lists), initial=0), pa.int32())
