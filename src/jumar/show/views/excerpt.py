"""Excerpts: numbered lines of a source, the ones that matter marked."""

from __future__ import annotations

from dataclasses import dataclass

from jumar.show.blocks.pictures import Excerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcerptLine:
    """One line; `margin` is its number, right-aligned to its neighbours."""

    margin: str
    text: str
    marked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcerptView:
    """What the template lays out."""

    title: str
    path: str
    lines: list[ExcerptLine]


def excerpt_view(excerpt: Excerpt) -> ExcerptView:
    """Prepare `excerpt`."""
    width = len(str(excerpt.first_line + len(excerpt.lines)))
    return ExcerptView(
        title=excerpt.title,
        path=excerpt.path,
        lines=[
            ExcerptLine(margin=f"{number:>{width}}", text=text, marked=number in excerpt.marked)
            for number, text in enumerate(excerpt.lines, start=excerpt.first_line)
        ],
    )
