"""Draw docs/images/house.svg, the rooms of `src/jumar` and their arrows, from the tables that tests/house holds.

    python scripts/build_house_picture.py

Of the arrows in `test_layers.ALLOWED` those are drawn that do not follow from others. The words in a box are the room's
sub-packages and top files, lowest first (`tests/house/orders`). Where a room stands in the picture is `PLACES`.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "house"))

from test_layers import ALLOWED  # noqa: E402 - the folder of the tests is no package
from test_order import order_of  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "house.svg"
WIDTH, GAP, LINE, PAD, LETTER = 1000, 34, 16, 10, 6.7
"""Pixels: the picture's width, between rows, a line of words, around words, a letter."""
LEFT, RIGHT = 330, 670
PLACES: dict[str, tuple[int, int, int]] = {
    "cli": (0, 0, 780),
    "view": (1, 0, 780),
    "show": (2, 0, 780),
    "testing": (2, 800, WIDTH),
    "port": (3, 0, 590),
    "advise": (4, 0, 180),
    "convert": (4, 200, 390),
    "comparison": (4, 410, 590),
    "tune": (4, 610, 790),
    "export": (4, 810, WIDTH),
    "capture": (5, LEFT, RIGHT),
    "timeline": (6, 0, 290),
    "device": (6, LEFT, RIGHT),
    "tfadapter": (6, 710, WIDTH),
    "npu": (7, LEFT, RIGHT),
    "soc": (8, LEFT, RIGHT),
    "amp": (8, 710, WIDTH),
    "recording": (9, LEFT, RIGHT),
    "operators": (10, LEFT, RIGHT),
    "base": (11, LEFT, RIGHT),
}
"""Room -> row from the top, left and right edge."""


@dataclass(frozen=True, slots=True)
class Box:
    """A room in the picture."""

    name: str
    words: tuple[str, ...]
    left: int
    right: int
    top: int
    bottom: int

    @property
    def middle(self) -> int:
        """Return the middle between left and right."""
        return (self.left + self.right) // 2


def reduced(allowed: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Yield the arrows that do not follow from two others."""
    for room, used in allowed.items():
        through = {below for one in used for below in allowed[one]}
        yield from ((room, one) for one in sorted(used - through))


def boxes() -> dict[str, Box]:
    """Return the box of each room."""
    lines = {room: tuple(_words(room, right - left)) for room, (_, left, right) in PLACES.items()}
    heights = [
        max(PAD * 2 + LINE * (1 + len(lines[room])) for room, place in PLACES.items() if place[0] == row)
        for row in range(1 + max(place[0] for place in PLACES.values()))
    ]
    tops = [sum(heights[:row]) + GAP * row + 1 for row in range(len(heights))]
    return {
        room: Box(room, lines[room], left, right, tops[row], tops[row] + heights[row])
        for room, (row, left, right) in PLACES.items()
    }


def _words(room: str, width: int) -> list[str]:
    return textwrap.wrap("  ".join(order_of(room)[0]), int((width - 2 * PAD) / LETTER), fix_sentence_endings=False)


def ways(places: Mapping[str, Box]) -> Iterator[str]:
    """Yield the lines of all arrows; rooms that use the same rooms share a bar."""
    below: dict[str, list[str]] = {}
    for upper, lower in reduced({room: used for room, used in ALLOWED.items() if room in places}):
        below.setdefault(upper, []).append(lower)
    for targets in {tuple(lowers) for lowers in below.values()}:
        sources = [places[room] for room, lowers in below.items() if tuple(lowers) == targets]
        if len(sources) == 1:
            yield from (_arrow(path(sources[0], places[room])) for room in targets)
        else:
            yield from _bar(sources, [places[room] for room in targets])


def _bar(uppers: list[Box], lowers: list[Box]) -> Iterator[str]:
    y = max(box.bottom for box in uppers) + GAP // 2
    middles = [box.middle for box in (*uppers, *lowers)]
    yield _arrow(f"M{min(middles)} {y} H{max(middles)}", tip=False)
    yield from (_arrow(f"M{box.middle} {box.bottom} V{y}", tip=False) for box in uppers)
    yield from (_arrow(f"M{box.middle} {y} V{box.top - 6}") for box in lowers)


def _arrow(way: str, *, tip: bool = True) -> str:
    return f'<path class="tip" d="{way}"/>' if tip else f'<path d="{way}"/>'


def path(upper: Box, lower: Box) -> str:
    """Return the way of an arrow: straight down where the boxes overlap, else down and to the side."""
    x = upper.middle if lower.left < upper.middle < lower.right else lower.middle
    if upper.left < x < upper.right:
        return f"M{x} {upper.bottom} V{lower.top - 6}"
    if upper.bottom + GAP == lower.top:
        side = max(lower.left + 20, min(lower.right - 20, upper.middle))
        return f"M{upper.middle} {upper.bottom} V{upper.bottom + GAP // 2} H{side} V{lower.top - 6}"
    end = lower.left - 6 if upper.middle < lower.left else lower.right + 6
    return f"M{upper.middle} {upper.bottom} V{(lower.top + lower.bottom) // 2} H{end}"


def picture() -> str:
    """Return the drawing as the text of an SVG file."""
    places = boxes()
    assert {room for room in ALLOWED if not room.startswith("_")} == set(places), "PLACES has every room once"
    height = max(box.bottom for box in places.values()) + 1
    drawn = [text for box in places.values() for text in _drawn(box)]
    return "\n".join([HEAD.format(width=WIDTH, height=height), *sorted(ways(places)), "</g>", *drawn, "</svg>", ""])


def _drawn(box: Box) -> Iterator[str]:
    size = f'x="{box.left + 1}" y="{box.top}" width="{box.right - box.left - 2}" height="{box.bottom - box.top}"'
    yield f'<rect {size} rx="6"/>'
    yield f'<text class="room" x="{box.left + PAD}" y="{box.top + PAD + 12}">{escape(box.name)}</text>'
    for number, words in enumerate(box.words, 1):
        yield f'<text x="{box.left + PAD}" y="{box.top + PAD + 12 + LINE * number}">{escape(words)}</text>'


HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="monospace"
 font-size="11">
<title>The rooms of Jumar. An arrow leads from a room to one that it may import.</title>
<style>rect {{ fill: #f4f6f8; stroke: #55606e }} text {{ fill: #333c47; white-space: pre }}
.room {{ font-size: 14px; font-weight: bold; fill: #0b3d66 }}
.arrows path {{ fill: none; stroke: #55606e }} .tip {{ marker-end: url(#tip) }}</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="2" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0 L8 4 L0 8 Z" fill="#55606e"/></marker></defs>
<rect width="{width}" height="{height}" style="fill: #ffffff; stroke: none"/>
<g class="arrows">"""


if __name__ == "__main__":
    PICTURE.write_text(picture(), "utf-8")
