"""What a page says, apart from how it looks: the renderers turn a `Page` into HTML or JSON.

Values in tables and charts are plain numbers and strings; a number's unit is in its column or axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from jumar.base.findings import Finding
from jumar.base.text.digits import Cell
from jumar.show.blocks.pictures import Excerpt, Histogram, Outline, Questions, Raster

if TYPE_CHECKING:
    from jumar.show.blocks.profiles import Flame, Roofline, StackedBars, Trace

Status = Literal["fine", "attention", "failed"]
STATUS_WORDS: dict[Status, str] = {"fine": "Fine", "attention": "Needs attention", "failed": "Failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer, first on the page."""

    status: Status
    headline: str
    """One sentence that answers the question the page was made for."""
    details: Sequence[str] = ()
    """Two or three sentences with the figures behind the headline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do next, most useful first on the page."""

    title: str
    detail: str = ""
    command: str = ""
    """Shell command to copy, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A table column. `unit` is shown in the heading; numbers are right-aligned, text left."""

    title: str
    unit: str = ""
    number: bool = False
    bar: bool = False
    """Draw a bar behind the number, relative to the column's greatest absolute value."""
    code: bool = False
    """The text is code (an operator, a module path, a file): shown in a fixed-width font."""
    digits: int = 4
    """Significant digits shown of a number that is not whole (losses that are compared want 7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under columns; the HTML form can be sorted and filtered by the reader.

    Raises ValueError when a row has not one cell per column or a marked index names no row.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    marked: Sequence[int] = ()
    """Indices of rows to highlight."""

    def __post_init__(self) -> None:
        for index, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"row {index} of table {self.title!r} must have {len(self.columns)} cells; it has {len(row)}"
                )
        for index in self.marked:
            if not 0 <= index < len(self.rows):
                raise ValueError(f"marked row {index} of table {self.title!r} must be one of {len(self.rows)} rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A line of a chart; `y` may hold None where there is no value (a gap), and NaN or Inf (shown as such).

    Raises ValueError when `x` and `y` differ in length.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float | None]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"series {self.name!r} must have as many x as y; got {len(self.x)} and {len(self.y)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart:
    """Lines over a common x axis."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_y: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    """Horizontal bars, greatest first as given."""

    title: str
    unit: str
    bars: Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingList:
    """Findings with their evidence, actions and edits; grouped by rule when there are many."""

    findings: Sequence[Finding]
    empty: str = "Nothing found."
    titles: Mapping[str, str] = field(default_factory=dict)
    """Rule code to the rule's one-sentence summary, shown at the head of its group. The caller takes
    it from the rules: a report knows none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Paragraphs of plain text, split at empty lines; text in `backquotes` is shown as code."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Text kept line by line, e.g. a traceback or a program's output."""

    text: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """A unified diff, coloured."""

    text: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValues:
    """Names and values side by side, e.g. how a run was made."""

    items: Sequence[tuple[str, Cell]]
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """A tree of dotted names coloured by a value (None: no value), e.g. divergence by module path."""

    title: str
    unit: str
    values: Sequence[tuple[str, float | None]]
    log_scale: bool = True


Block: TypeAlias = (
    "Table | LineChart | BarChart | FindingList | Text | Listing | Diff | KeyValues | Heat | Outline | Histogram | "
    "Raster | Questions | Excerpt | Trace | Flame | StackedBars | Roofline"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A titled part of a page; `collapsed` ones open on a click."""

    title: str
    blocks: Sequence[Block]
    collapsed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole page: the verdict, what to do next, then the evidence."""

    title: str
    verdict: Verdict
    actions: Sequence[Action]
    sections: Sequence[Section]
    footer: str = ""
