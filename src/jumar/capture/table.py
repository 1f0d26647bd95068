"""A step's notes as the table and the tensors that are written. Imports PyArrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jumar.capture.calls import Call, Named, Seen, arguments_text
from jumar.recording import TensorRow
from jumar.recording.rows import make_table, tensor_column
from jumar.recording.schema import row_key

if TYPE_CHECKING:
    import numpy as np

_NOTED = (
    "kind",
    "phase",
    "module_path",
    "module_type",
    "name",
    "occurrence",
    "source",
    "autocast",
    "rng",
    "start_us",
    "duration_us",
)
"""Columns that are attributes of a call."""


def to_table(calls: Sequence[Call], step: int, rank: int) -> Any:
    """Return the rows of a step, in the order in which the calls finished."""
    columns: dict[str, Sequence[Any]] = {name: [getattr(call, name) for call in calls] for name in _NOTED}
    columns["step"] = [step] * len(calls)
    columns["rank"] = [rank] * len(calls)
    columns["seq"] = range(len(calls))
    columns["arguments"] = [arguments_text(call.arguments) for call in calls]
    rows: dict[int, TensorRow] = {}
    inputs = _tensors([call.inputs for call in calls], rows)
    outputs = _tensors([call.outputs for call in calls], rows)
    return make_table(columns, inputs=inputs, outputs=outputs)


def to_arrays(
    calls: Sequence[Call], *, only_wanted: bool = False
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, dict[str, str]]]:
    """Return the whole tensors of a step by row key and tensor name, and their dtypes likewise.

    With `only_wanted` those of rows that were asked for, although other rows may have seen the same tensors.
    """
    arrays: dict[str, dict[str, np.ndarray]] = {}
    dtypes: dict[str, dict[str, str]] = {}
    for call in calls:
        if only_wanted and not call.wanted:
            continue
        for named in (call.inputs, call.outputs):
            for name, seen in zip(named[::2], named[1::2], strict=True):
                if seen.array is not None:
                    key = row_key(call.kind, call.phase, call.module_path, call.name, call.occurrence)
                    arrays.setdefault(key, {})[name] = seen.array
                    dtypes.setdefault(key, {})[name] = str(seen.dtype).removeprefix("torch.")
    return arrays, dtypes


def _tensors(sides: Sequence[Named], rows: dict[int, TensorRow]) -> Any:
    names = [name for named in sides for name in named[::2]]
    tensors = [_row(seen, rows) for named in sides for seen in named[1::2]]
    return tensor_column(names, tensors, [len(named) // 2 for named in sides])


def _row(seen: Seen, rows: dict[int, TensorRow]) -> TensorRow:
    row = rows.get(id(seen))
    if row is None:
        row = rows[id(seen)] = seen.to_row()
    return row
