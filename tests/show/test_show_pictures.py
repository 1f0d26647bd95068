from __future__ import annotations

import base64
import math
import struct
import zlib

import pytest

from jumar.show.blocks.pictures import Counts, Excerpt, Histogram, Outline, OutlineEntry, Raster
from jumar.show.views.excerpt import excerpt_view
from jumar.show.views.histogram import histogram_view
from jumar.show.views.outline import OutlineNode, outline_view
from jumar.show.views.raster import raster_view


def outline(*entries: OutlineEntry) -> list[OutlineNode]:
    return outline_view(Outline(title="", unit="", entries=entries)).nodes


def test_a_node_shows_the_greatest_value_below_it() -> None:
    (blocks,) = outline(OutlineEntry(name="blocks.0.ln", value=1.0), OutlineEntry(name="blocks.1.ln", value=3.0))
    assert (blocks.value, blocks.summed, blocks.text) == (3.0, True, "3")


def test_nan_is_greater_than_any_number() -> None:
    (top,) = outline(OutlineEntry(name="a.b", value=math.nan), OutlineEntry(name="a.c", value=9.0))
    assert (top.text, top.css) == ("NaN", "bad")


def test_a_great_tree_opens_only_on_the_way_to_what_is_marked() -> None:
    entries = [OutlineEntry(name=f"m.{i}.{j}", value=1.0, marked=(i, j) == (2, 1)) for i in range(10) for j in range(5)]
    (top,) = outline(*entries)
    assert top.open
    assert [name for name, node in top.children.items() if node.open] == ["2"]


def test_a_chain_of_names_is_one_node() -> None:
    (node,) = outline(OutlineEntry(name="backbone.stem.conv", value=1.0))
    assert (node.label, node.path) == ("backbone.stem.conv", "backbone.stem.conv")


def test_the_root_has_a_name() -> None:
    (node,) = outline(OutlineEntry(name="", value=0.0))
    assert node.label == "(model)"


def test_a_histogram_is_a_closed_path_over_the_plot() -> None:
    view = histogram_view(
        Histogram(title="", x_label="", edges=(0.0, 1.0, 2.0), series=[Counts(name="a", counts=(0, 4))])
    )
    assert view is not None
    assert view.series[0].path == "M0.0 1000V1000.0H500.0V0.0H1000.0V1000Z"


def test_counts_must_fit_the_bins() -> None:
    with pytest.raises(ValueError, match="2 counts"):
        Histogram(title="", x_label="", edges=(0.0, 1.0, 2.0), series=[Counts(name="a", counts=(1,))])
    with pytest.raises(ValueError, match="rise"):
        Histogram(title="", x_label="", edges=(1.0, 0.0), series=[])


def pixels(values: list[list[float]]) -> list[list[tuple[int, ...]]]:
    view = raster_view(Raster(title="", unit="", values=values, rows="", columns=""))
    assert view is not None
    png = base64.b64decode(view.source.partition(",")[2])
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    wide, high = struct.unpack(">II", png[16:24])
    size = struct.unpack(">I", png[33:37])[0]
    raw = zlib.decompress(png[41 : 41 + size])
    lines = [raw[y * (4 * wide + 1) + 1 : (y + 1) * (4 * wide + 1)] for y in range(high)]
    return [[tuple(line[4 * x : 4 * x + 4]) for x in range(wide)] for line in lines]


def test_colour_tells_the_sign_and_strength_the_size() -> None:
    (zero, small, great), (below, broken, _) = pixels([[0.0, 0.01, 4.0], [-4.0, math.nan, 0.0]])
    assert zero[3] == 0
    assert 0 < small[3] < great[3] == 255
    assert below[2] > below[0]
    assert great[0] > great[2]
    assert broken[3] == 255


def test_a_raster_of_zeros_is_empty() -> None:
    assert {pixel[3] for line in pixels([[0.0, 0.0]]) for pixel in line} == {0}


def test_rows_of_a_raster_have_one_length() -> None:
    with pytest.raises(ValueError, match="one length"):
        Raster(title="", unit="", values=[[1.0], [1.0, 2.0]], rows="", columns="")


def test_an_excerpt_numbers_its_lines_and_marks_some() -> None:
    view = excerpt_view(Excerpt(path="a.py", first_line=9, lines=["x", "y"], marked=[10]))
    assert [(line.margin, line.marked) for line in view.lines] == [(" 9", False), ("10", True)]
