"""What a step file may hold: `checked_table` reads one whose amounts, columns and values are those of rows.

Imports PyArrow: import this module only where rows are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jumar.recording.documents import DocumentError, check_arguments
from jumar.recording.schema import CallRow, Kind, Phase, TensorRow

SIDES = ("inputs", "outputs")
_KINDS: dict[str, Callable[[pa.DataType], bool]] = {
    "str": pa.types.is_string, "Kind": pa.types.is_string, "Phase": pa.types.is_string, "int": pa.types.is_integer,
    "float": pa.types.is_floating, "bool": pa.types.is_boolean, "bytes": pa.types.is_binary, "tuple": pa.types.is_list,
}  # fmt: skip
"""Whether a column is of the type that a field of a row has, by the first word of that type."""

_VARIED_LENGTH = -1
"""The length, in a shape, of a nested tensor's dimension that is not the same for all of its parts."""

SPARE_VALUES, VALUES_PER_BYTE, BYTES_PER_ROW = 20_000, 1, 8
"""A column of a step file may have so many values, and so many for each byte of the file; a row takes so many bytes at
least. (A step of a transformer without statistics has 0.11 values a byte, and 32 bytes a row: measured.)"""
SPARE_BYTES, SPARE_FACTOR = 256 << 20, 64
"""The pages may take so many bytes in memory, and so many times the file."""


def checked_table(path: Path) -> pa.Table:
    """Return the table of a step file, its columns of the types that rows need.

    Raises OSError or pyarrow.ArrowException when it is damaged, declares far more values than the file holds, or holds
    others than rows have.
    """
    size = path.stat().st_size
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        _check_amount(file.metadata, size)
        table = file.read()
        _check_types(table)
        if not missing_columns(table.schema):
            _check_values(table)
        return table


def _check_amount(metadata: pq.FileMetaData, size_bytes: int) -> None:
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    most = SPARE_VALUES + VALUES_PER_BYTE * size_bytes
    values = max([metadata.num_rows, *(column.num_values for column in columns)])
    unpacked = sum(column.total_uncompressed_size for column in columns)
    too_many_rows = metadata.num_rows > SPARE_VALUES + size_bytes // BYTES_PER_ROW
    least = min([metadata.num_rows, *(column.num_values for column in columns)])
    if least < 0 or too_many_rows or values > most or unpacked > SPARE_BYTES + SPARE_FACTOR * size_bytes:
        raise pa.ArrowInvalid(f"it declares {values:,} values and {unpacked:,} bytes in a file of {size_bytes:,}")


def _check_types(table: pa.Table) -> None:
    """Raise ArrowInvalid for a column of another type than rows have, or without values that every row has."""
    if missing_columns(table.schema):
        return  # the caller names them
    for field in fields(CallRow):
        if field.name not in table.column_names:
            continue
        kind = table.schema.field(field.name).type
        if not _is_of(kind, str(field.type)) or (field.default is MISSING and table.column(field.name).null_count):
            raise pa.ArrowInvalid(f"its column {field.name} is {kind} and must be {field.type}")
        if field.name in SIDES:
            known = {one.name: str(one.type) for one in fields(TensorRow)}
            for one in kind.value_type:
                if one.name in known and not _is_of(one.type, known[one.name]):
                    raise pa.ArrowInvalid(f"{field.name}.{one.name} is {one.type} and must be {known[one.name]}")


def _is_of(kind: pa.DataType, hint: str) -> bool:
    return pa.types.is_null(kind) or _KINDS[re.split(r"\W", hint, maxsplit=1)[0]](kind)


def _check_values(table: pa.Table) -> None:
    """Raise ArrowInvalid for values that no row has: other kinds, negative counts, arguments that are no object."""
    for name, known in (("kind", get_args(Kind)), ("phase", get_args(Phase))):
        for value in pc.unique(table.column(name)).to_pylist():
            if value not in known:
                raise pa.ArrowInvalid(f"its {name} is {ascii(value)[:40]} and must be one of {', '.join(known)}")
    for name, least, allowed in _least_values(table):
        if least is not None and least < allowed:
            raise pa.ArrowInvalid(f"its {name} is {least} and must be at least {allowed}")
    texts = pc.unique(table.column("arguments")).to_pylist() if "arguments" in table.column_names else []
    try:
        check_arguments(*texts)
    except DocumentError as error:
        raise pa.ArrowInvalid(f"its arguments are damaged: {error}") from error


def _least_values(table: pa.Table) -> Iterator[tuple[str, int | None, int]]:
    """Yield the columns of numbers that count something, their least values (None for a column without) and bounds."""
    for name in ("step", "rank", "seq", "occurrence"):
        yield name, pc.min(table.column(name)).as_py(), 0
    for side in SIDES:
        if side in table.column_names and pa.types.is_list(table.schema.field(side).type):
            shapes = pc.struct_field(pc.list_flatten(table.column(side)), "shape")
            yield f"{side}.shape", pc.min(pc.list_flatten(shapes)).as_py(), _VARIED_LENGTH


def missing_columns(schema: pa.Schema) -> list[str]:
    """Return the names of columns that a step file must have and `schema` has not; also of the tensors' fields."""
    missing = [name for name in _required(CallRow) if name not in schema.names]
    for side in SIDES:
        if side in schema.names:
            kind = schema.field(side).type
            nested = pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)
            known = {field.name for field in kind.value_type} if nested else set()
            missing += [f"{side}.{name}" for name in _required(TensorRow) if name not in known]
    return missing


def _required(record: type[CallRow] | type[TensorRow]) -> list[str]:
    return [field.name for field in fields(record) if field.default is MISSING]
