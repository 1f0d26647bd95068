"""Tables: the first rows as HTML, and all rows as JSON for sorting, filtering and paging in the browser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from jumar.base.text.digits import Cell, cell_text, is_rounded
from jumar.show.blocks.documents import plain
from jumar.show.blocks.page import Column, Table

PAGE_ROWS = 50
"""Rows shown at once. More would make a phone stutter; all of them are one click or a search away."""
_MIN_FILTERED = 9
"""A shorter table has no search field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellView:
    """One cell: its text, the CSS classes, the exact value where the text is rounded, the bar's share."""

    text: str
    classes: str
    exact: str = ""
    bar_percent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """What the template lays out; `data` is what the script works on."""

    id: str
    title: str
    columns: Sequence[Column]
    rows: list[list[CellView]]
    marked: frozenset[int]
    num_rows: int
    data: dict[str, Any]
    filtered: bool

    @property
    def interactive(self) -> bool:
        """Whether there is anything to sort."""
        return self.num_rows > 1


def table_view(table: Table, table_id: str) -> TableView:
    """Prepare `table` under the element id `table_id`."""
    greatest = [_greatest(table, index) if column.bar else 0.0 for index, column in enumerate(table.columns)]
    return TableView(
        id=table_id,
        title=table.title,
        columns=table.columns,
        rows=[
            [_cell(value, column, top) for value, column, top in zip(row, table.columns, greatest, strict=True)]
            for row in table.rows[:PAGE_ROWS]
        ],
        marked=frozenset(table.marked),
        num_rows=len(table.rows),
        data={
            "page": PAGE_ROWS,
            "columns": [
                [column.number, column.code, top, column.digits]
                for column, top in zip(table.columns, greatest, strict=True)
            ],
            "marked": sorted(set(table.marked)),
            "rows": plain(table.rows),
        },
        filtered=len(table.rows) >= _MIN_FILTERED,
    )


def _greatest(table: Table, index: int) -> float:
    sizes = (abs(float(value)) for row in table.rows if _is_finite(value := row[index]))
    return max(sizes, default=0.0)


def _is_finite(value: Cell) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _cell(value: Cell, column: Column, greatest: float) -> CellView:
    classes = ["n"] * column.number + ["c"] * column.code + ["z"] * (value is None)
    bar = ""
    if greatest and _is_finite(value):
        bar = f"{abs(float(value)) / greatest * 100:.1f}"
        classes.append("b")
    exact = repr(value) if is_rounded(value, column.digits) else ""
    return CellView(text=cell_text(value, column.digits), classes=" ".join(classes), exact=exact, bar_percent=bar)
