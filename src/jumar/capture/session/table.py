"""A step's notes as the table and the tensors that are written. Imports PyArrow.

Most of a step is like the step before: columns whose values are the same are not made again. What differs,
times and values, goes from arrays straight into columns, once for each tensor however many rows saw it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from jumar.capture.notes.calls import UNKNOWN, Call, Layout, Named, Seen, Site, arguments_text
from jumar.capture.notes.operators import draws_with
from jumar.recording.rows import ROW_TYPES, TABLE_SCHEMA, TENSOR_TYPES, TENSORS, shape_column

if TYPE_CHECKING:
    import numpy.typing as npt

    from jumar.recording.tensors.views import ArrayView

_OF_SITE = ("kind", "phase", "module_path", "module_type", "name", "is_view")
_REPEATING = ("occurrence", "source", "autocast", "rng", "arguments")
_OF_CALL = ("site", *_REPEATING, "start_us", "duration_us", "inputs", "outputs")
_fields_of = attrgetter(*_OF_CALL)
_OF_LAYOUT = ("shape", "dtype", "device", "stride", "storage_offset", "contiguous", "format")
_STATISTICS = ("minimum", "maximum", "mean", "l2", "num_nan", "num_inf")
_MOST_TEXTS = 20_000


class TableMaker:
    """Makes the tables of the steps of one rank, one after the other."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._kept: dict[str, tuple[Any, Any]] = {}
        self._texts: dict[str, str] = {}

    def make(self, calls: Sequence[Call], step: int) -> pa.Table:
        """Return the rows of a step, in the order in which the calls finished."""
        fields = dict(zip(_OF_CALL, zip(*map(_fields_of, calls), strict=True), strict=True)) if calls else {}
        sites = fields.pop("site", ())
        columns = dict(zip(_OF_SITE, self._as_before("sites", sites, _site_columns), strict=True))
        columns["rank"] = self._as_before("rank", [self._rank] * len(calls), _plain("rank"))
        columns["seq"] = self._as_before("seq", range(len(calls)), _plain("seq"))
        columns["step"] = pa.array(np.full(len(calls), step, np.int32))
        columns["draws"] = self._as_before("draws", _draws(sites, fields.get("arguments", ())), _plain("draws"))
        fields["arguments"] = tuple(map(self._arguments, fields.get("arguments", ())))
        for name in _REPEATING:
            columns[name] = self._as_before(name, fields.get(name, ()), _plain(name))
        for name in ("start_us", "duration_us"):
            columns[name] = pa.array(np.array(fields.get(name, ()), np.float64))
        sides = {side: fields.get(side, ()) for side in ("inputs", "outputs")}
        flat = {side: list(chain.from_iterable(named)) for side, named in sides.items()}
        distinct = dict.fromkeys(chain(flat["inputs"][1::2], flat["outputs"][1::2]))
        numbers = {seen: number for number, seen in enumerate(distinct)}
        values = _values(list(numbers))
        for side, named in sides.items():
            columns[side] = self._tensors(side, named, flat[side], numbers, values)
        return pa.Table.from_arrays([columns[name] for name in TABLE_SCHEMA.names], schema=TABLE_SCHEMA)

    def _as_before(self, name: str, values: Any, make: Callable[[Any], Any]) -> Any:
        """Return the column that `make` makes of `values`, the last one when the values are the same."""
        kept = self._kept.get(name)
        if kept is None or kept[0] != values:
            kept = self._kept[name] = values, make(values)
        return kept[1]

    def _arguments(self, arguments: Any) -> str:
        """Return the JSON of a call's arguments; of equal ones it is made once."""
        if not arguments:
            return ""
        if isinstance(arguments, str):
            return arguments
        written = repr(arguments)  # NOTE: 1 and True are equal, and are not written alike
        text = self._texts.get(written)
        if text is None:
            if len(self._texts) > _MOST_TEXTS:
                self._texts.clear()
            text = self._texts[written] = arguments_text(arguments)
        return text

    def _tensors(
        self, side: str, sides: Sequence[Named], flat: Named, numbers: dict[Seen, int], values: dict[str, Any]
    ) -> pa.Array:
        tensors: list[Seen] = flat[1::2]
        layouts = [seen.layout for seen in tensors]
        children = dict(
            zip(_OF_LAYOUT, self._as_before(f"{side} layouts", layouts, _layout_columns), strict=True),
            name=self._as_before(f"{side} names", flat[::2], _plain("name")),
            storage=self._as_before(f"{side} storages", [seen.storage for seen in tensors], _tensor_plain("storage")),
        )
        places = np.fromiter(map(numbers.__getitem__, tensors), np.int32, len(tensors))
        children |= {name: _spread(column, places, TENSOR_TYPES[name]) for name, column in values.items()}
        lengths = [len(named) >> 1 for named in sides]
        offsets = self._as_before(f"{side} lengths", lengths, _offsets)
        structs = pa.StructArray.from_arrays([children[name] for name in TENSOR_TYPES], fields=list(TENSORS.value_type))
        return pa.ListArray.from_arrays(offsets, structs, type=TENSORS)


def to_arrays(
    calls: Sequence[Call], *, only_wanted: bool = False
) -> tuple[dict[str, dict[str, np.ndarray | ArrayView]], dict[str, dict[str, str]]]:
    """Return the whole tensors of a step by row key and tensor name, and their dtypes likewise.

    With `only_wanted` those of rows that were asked for, although other rows may have seen the same tensors.
    """
    arrays: dict[str, dict[str, np.ndarray | ArrayView]] = {}
    dtypes: dict[str, dict[str, str]] = {}
    for call in calls:
        if only_wanted and not call.wanted:
            continue
        for named in (call.inputs, call.outputs):
            for name, seen in zip(named[::2], named[1::2], strict=True):
                if seen.array is not None:
                    arrays.setdefault(call.key, {})[name] = seen.array
                    dtypes.setdefault(call.key, {})[name] = str(seen.dtype).removeprefix("torch.")
    return arrays, dtypes


def _draws(sites: Sequence[Site], arguments: Sequence[Any]) -> list[bool | None]:
    """Return whether each call draws random numbers, as its arguments say where they decide."""
    return [site.draws and draws_with(site.name, given) for site, given in zip(sites, arguments, strict=True)]


def _plain(name: str) -> Callable[[Any], pa.Array]:
    return lambda values: pa.array(values, ROW_TYPES[name])


def _site_columns(sites: Sequence[Site]) -> list[pa.Array]:
    return [pa.array([getattr(site, name) for site in sites], ROW_TYPES[name]) for name in _OF_SITE]


def _tensor_plain(name: str) -> Callable[[Any], pa.Array]:
    return lambda values: pa.array(values, TENSOR_TYPES[name])


def _offsets(lengths: Sequence[int]) -> pa.Array:
    return pa.array(accumulate(lengths, initial=0), pa.int32())


def _layout_columns(layouts: Sequence[Layout]) -> list[pa.Array]:
    """Return the columns `_OF_LAYOUT` of tensors with these layouts; each layout is converted once."""
    numbers = {layout: number for number, layout in enumerate(dict.fromkeys(layouts))}
    once = [_layout_column(name, list(numbers)) for name in _OF_LAYOUT]
    places = pa.array(map(numbers.__getitem__, layouts), pa.int32(), size=len(layouts))
    return [column.take(places) for column in once]


def _layout_column(name: str, layouts: Sequence[Layout]) -> pa.Array:
    values = [getattr(layout, name) for layout in layouts]
    if name in ("shape", "stride"):
        return shape_column(values)
    if name in ("dtype", "device"):
        values = [str(value).removeprefix("torch.") for value in values]
    return pa.array(values, TENSOR_TYPES[name])


def _values(tensors: Sequence[Seen]) -> dict[str, Any]:
    """Return the columns of what differs from step to step, one value a tensor; one value for all of a column."""
    statistics = b"".join([seen.statistics or UNKNOWN for seen in tensors])
    numbers = np.frombuffer(statistics, np.float64).reshape(-1, len(_STATISTICS))
    columns: dict[str, Any] = dict(zip(_STATISTICS, np.ascontiguousarray(numbers.T), strict=True))
    has_sketch = any(seen.sketch is not None for seen in tensors)
    columns["sketch"] = pa.array([seen.sketch for seen in tensors], pa.binary()) if has_sketch else None
    has_hash = any(seen.hash for seen in tensors)
    columns["hash"] = pa.array([seen.hash for seen in tensors], pa.string()) if has_hash else ""
    return columns


def _spread(column: Any, places: npt.NDArray[np.int32], kind: pa.DataType) -> pa.Array:
    """Return the values of a column at `places`; a number that is NaN is not known."""
    if column is None:
        return pa.nulls(len(places), pa.binary())
    if isinstance(column, str):
        return pa.repeat(column, len(places))
    if isinstance(column, pa.Array):
        return column.take(pa.array(places))
    found = column[places]
    unknown = np.isnan(found)
    if pa.types.is_integer(kind):
        found = np.where(unknown, 0, found).astype(np.int64)
    return pa.array(found, kind, mask=unknown)
