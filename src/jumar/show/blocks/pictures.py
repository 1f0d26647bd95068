"""Further blocks of a page: trees that fold, histograms, rasters, questions with answers, lines of a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Mark = Literal["", "fine", "attention", "failed"]
"""How an entry is shown: without a judgement, or as one of the page's states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineEntry:
    """One name of an outline: its value or None, a short note, and whether it is marked for the reader."""

    name: str
    value: float | None = None
    note: str = ""
    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """Dotted names as a tree that folds, coloured by value; it opens along the way to what is marked.

    A node without a value of its own shows the greatest below it.
    """

    title: str
    unit: str
    entries: Sequence[OutlineEntry]
    log_scale: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """One histogram over the edges of its chart. `counts` has one number a bin."""

    name: str
    counts: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts over common bins; several series lie over each other.

    Raises ValueError when the edges do not rise, or a series has not one count a bin.
    """

    title: str
    x_label: str
    edges: Sequence[float]
    series: Sequence[Counts]
    note: str = ""
    """What is not in it, e.g. values that are not finite."""

    def __post_init__(self) -> None:
        if any(low >= high for low, high in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError(f"edges of histogram {self.title!r} must rise; got {list(self.edges)}")
        for one in self.series:
            if len(one.counts) != len(self.edges) - 1:
                raise ValueError(
                    f"series {one.name!r} must have {len(self.edges) - 1} counts, one a bin; it has {len(one.counts)}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Raster:
    """A matrix as a picture, strong where its numbers are great: red above zero, blue below.

    `rows` and `columns` name the axes and say what one cell stands for. Raises ValueError for rows of unequal length.
    """

    title: str
    unit: str
    values: Sequence[Sequence[float]]
    rows: str
    columns: str
    note: str = ""

    def __post_init__(self) -> None:
        if len({len(row) for row in self.values}) > 1:
            raise ValueError(f"rows of raster {self.title!r} must be of one length")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question that was asked, its answer, and by which evidence."""

    question: str
    answer: str
    evidence: str = ""
    mark: Mark = ""
    decisive: bool = False
    """The answer that ended the search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """A way through a decision flow, in the order in which it was gone."""

    questions: Sequence[Question]
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Lines of a source file around those that matter (`marked`: their numbers, from 1)."""

    path: str
    first_line: int
    lines: Sequence[str]
    marked: Sequence[int] = ()
    title: str = ""
