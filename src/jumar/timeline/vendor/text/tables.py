"""`Table`: a CSV file whose columns are found by their names, in any order and spelling, through damage."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jumar.timeline.vendor.text import quantities
from jumar.timeline.vendor.text.losses import Losses

Columns = Mapping[str, tuple[str, ...]]
"""Own name of a column -> the headings it had in the versions of CANN, without units: `duration` -> `Task Duration`."""
_CONTROL = {code: None for code in range(32) if code not in (9, 10, 13)}
_LONGEST_CELL = 1 << 22
"""Characters; call stacks are the longest."""
_BROKEN_TEXT = "�"


@dataclass(frozen=True, slots=True)
class Row:
    """One row; cells are asked for by the own names of the columns."""

    cells: list[str]
    headings: list[str]
    places: Mapping[str, int]

    def text(self, column: str) -> str:
        """Return a cell without the blanks around it; empty where there is none or it says `N/A`."""
        place = self.places.get(column, -1)
        found = self.cells[place].strip() if 0 <= place < len(self.cells) else ""
        return "" if quantities.is_nothing(found) else found

    def ns(self, column: str) -> int | None:
        """Return a time in nanoseconds by the unit in its heading, microseconds where it has none."""
        place = self.places.get(column, -1)
        if place < 0:
            return None
        return quantities.nanoseconds(self.text(column), quantities.time_unit(self.headings[place]))

    def size(self, column: str, default: str = "mb") -> int | None:
        """Return a size in bytes by the unit in its heading."""
        value = quantities.number(self.text(column))
        return None if value is None else round(value * quantities.size_unit(self.heading(column), default))

    def number(self, column: str) -> float | None:
        """Return a number."""
        return quantities.number(self.text(column))

    def integer(self, column: str) -> int | None:
        """Return a whole number."""
        return quantities.integer(self.text(column))

    def heading(self, column: str) -> str:
        """Return the heading of a column as it stands in the file."""
        place = self.places.get(column, -1)
        return self.headings[place] if place >= 0 else ""


def rows(path: Path, columns: Columns, required: Iterable[str], losses: Losses) -> Iterator[Row]:
    """Yield the rows of a table. Damage is counted in `losses`; nothing is raised but OSError.

    A heading may stand again in the middle of the file, also with other columns: slices are joined like that.
    """
    required = tuple(required)
    headings: list[str] = []
    places: dict[str, int] = {}
    known: frozenset[str] = frozenset()
    for cells in _records(path, losses):
        found = {} if headings and known.isdisjoint(cells) else _places(cells, columns)
        if found and all(column in found for column in required):
            headings, places, known = [cell.strip() for cell in cells], found, frozenset(filter(None, cells))
        elif not headings:
            _no_heading(path, cells, columns, required, losses)
            return
        elif _is_whole(cells, headings):
            losses.read(path.name)
            yield Row(cells, headings, places)
        else:
            losses.passed_over(path.name, f"they do not have the {len(headings)} cells of their heading")
    if not headings:
        losses.say(path.name, "the file is empty.")


def _no_heading(path: Path, cells: list[str], columns: Columns, required: tuple[str, ...], losses: Losses) -> None:
    missing = [columns[name][0] for name in required if name not in _places(cells, columns)]
    losses.say(path.name, f"not read, its first line has no column {' and no column '.join(missing)}.")


def _is_whole(cells: list[str], headings: list[str]) -> bool:
    """Return whether a row has a cell for every heading; a comma at the end makes one more, an empty one."""
    return len(cells) == len(headings) or (
        len(cells) > len(headings) and not any(cell.strip() for cell in cells[len(headings) :])
    )


def _places(cells: list[str], columns: Columns) -> dict[str, int]:
    known = {_key(cell): place for place, cell in reversed(list(enumerate(cells)))}
    found = {}
    for name, spellings in columns.items():
        place = next((known[_key(spelling)] for spelling in spellings if _key(spelling) in known), None)
        if place is not None:
            found[name] = place
    return found


def _key(heading: str) -> str:
    """Return a heading without its unit, blanks, underscores and case."""
    unit = heading.rfind("(")
    if unit > 0 and heading.rstrip().endswith(")") and heading[unit + 1 :].strip(" )").lower() in _UNITS:
        heading = heading[:unit]
    return "".join(heading.split()).replace("_", "").lower()


_UNITS = frozenset({"us", "ns", "ms", "s", "µs", "μs", "b", "byte", "bytes", "kb", "mb", "gb"})


def _records(path: Path, losses: Losses) -> Iterator[list[str]]:
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(_lines(path, file, losses))
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error:
                losses.passed_over(path.name, "a quotation mark is not closed")
                continue
            if any(cell.strip() for cell in cells):
                yield cells


def _lines(path: Path, lines: Iterable[str], losses: Losses) -> Iterator[str]:
    num_control = num_broken = 0
    line = "\n"
    for line in lines:
        clean = line.translate(_CONTROL)
        num_control += clean != line
        num_broken += _BROKEN_TEXT in clean
        yield clean
    if not line.endswith(("\n", "\r")):
        losses.say(path.name, "its last line has no end, so the file may be cut short.")
    if num_control:
        losses.say(path.name, f"{num_control} lines hold control characters, which were left out.")
    if num_broken:
        losses.say(path.name, f"{num_broken} lines are not UTF-8; their broken characters read {_BROKEN_TEXT}.")
