"""Pictures of a profile: what is packed comes out again, nothing overlaps, sums agree, and what is left out is said."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.show.blocks.profiles import Dot, FlameNode, Roofline, StackedBars
from jumar.show.html.profiles.roof import roof_view
from jumar.show.html.profiles.stacked import stacked_view
from jumar.show.pages.profile import profile_sections
from jumar.show.pages.profile.flame import flame_picture
from jumar.show.pages.profile.memory import memory_blocks
from jumar.show.pages.profile.rows import in_rows
from jumar.show.pages.profile.shapes import shapes_table
from jumar.show.pages.profile.trace import trace_picture, unpacked
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Detail, Kind, Lane, StepWindow, Timeline
from jumar.timeline.reading import read_timeline

REAL = Path(__file__).parents[1] / "timeline" / "data" / "h200_three_steps.json.gz"
HOST, STREAM = Lane("main", "7", "host"), Lane("stream 7", "0", "device", 0)
NODE = shutil.which("node")

Row = tuple[str, Kind, int, int]
TIMES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 30)), min_size=1, max_size=30)


def timeline_of(host: list[Row], device: list[tuple[str, int, int, int]] = [], steps: int = 1) -> Timeline:  # noqa: B006
    """Return a timeline of calls (name, kind, start, duration) and kernels (name, start, duration, link)."""
    builder = TimelineBuilder()
    main, stream = builder.lane(HOST), builder.lane(STREAM)
    for number, (name, kind, start, duration) in enumerate(host, start=1):
        builder.add(start, duration, kind, builder.name(name), main, link=number if kind == Kind.RUNTIME else 0)
    for name, start, duration, link in device:
        builder.add(start, duration, Kind.KERNEL, builder.name(name), stream, link=link)
    end = max(start + duration for _, _, start, duration in host)
    windows = [StepWindow(number, number * end // steps, (number + 1) * end // steps) for number in range(steps)]
    return builder.build(source="x", format="jumar", steps=windows, steps_from="marks")


@given(TIMES)
def test_events_of_one_row_do_not_overlap(times: list[tuple[int, int, int]]) -> None:
    builder = TimelineBuilder()
    for lane, start, duration in times:
        builder.add(start, duration, Kind.OPERATOR, builder.name("x"), builder.lane(Lane(f"{lane}", "7", "host")))
    events = builder.build(source="x", format="jumar").events
    order, lanes, depths = in_rows(events)
    assert sorted(order.tolist()) == list(range(len(times)))
    rows: dict[tuple[int, int], int] = {}
    for position, lane, depth in zip(order, lanes, depths, strict=True):
        assert events.start_ns[position] >= rows.get((lane, depth), 0)
        rows[lane, depth] = int(events.end_ns[position])


@given(TIMES, st.sampled_from([1, 10**10]))
def test_what_is_packed_comes_out_again(times: list[tuple[int, int, int]], scale: int) -> None:
    builder = TimelineBuilder()
    for lane, start, duration in times:
        detail = builder.detail(Detail(shapes=f"[[{lane}]]"))
        builder.add(
            start * scale, duration * scale, Kind.KERNEL, builder.name(f"op {start}"), builder.lane(HOST), detail=detail
        )
    timeline = builder.build(source="x", format="jumar")
    picture = trace_picture(timeline)
    assert picture is not None
    columns, details = unpacked(picture)
    unit, names = picture.header["unit_ns"], picture.header["names"]
    first = min(start for _, start, _ in times)
    expected = [(f"op {start}", (start - first) * scale // unit, duration * scale // unit, f"[[{lane}]]")
                for lane, start, duration in times]  # fmt: skip
    found = [
        (names[name], start, duration, details[detail - 1][0])
        for name, start, duration, detail in zip(
            *(columns[title].tolist() for title in ("name", "start", "duration", "detail")), strict=True
        )
    ]
    assert sorted(found) == sorted(expected)
    assert sum(count for _, _, _, count in picture.header["rows"]) == len(times)


def test_a_kernel_points_at_its_launch() -> None:
    timeline = timeline_of([("aten::mm", Kind.OPERATOR, 0, 9), ("launch", Kind.RUNTIME, 2, 3)], [("gemm", 8, 9, 2)])
    picture = trace_picture(timeline)
    assert picture is not None
    columns, _ = unpacked(picture)
    names = [picture.header["names"][index] for index in columns["name"]]
    assert [names[origin - 1] if origin else "" for origin in columns["from"]] == [
        "launch" if name == "gemm" else "" for name in names
    ]


def test_of_too_many_events_the_slowest_step_is_drawn_and_the_page_says_so() -> None:
    host = [("aten::mm", Kind.OPERATOR, at, 1) for at in range(100)]
    timeline = timeline_of(host, steps=4)
    picture = trace_picture(timeline, max_events=30)
    assert picture is not None
    assert picture.header["count"] == 25
    assert picture.note.startswith("Drawn: step 0 around the slowest, of 100 events in all.")
    fewer = trace_picture(timeline, max_events=10)
    assert fewer is not None
    assert (fewer.header["count"], "its longest 10 events" in fewer.note) == (10, True)


def test_a_flame_graph_adds_up_times_of_the_host_and_of_what_it_started() -> None:
    host = [
        ("step", Kind.RANGE, 0, 100), ("aten::linear", Kind.OPERATOR, 5, 40), ("aten::mm", Kind.OPERATOR, 10, 20),
        ("launch", Kind.RUNTIME, 12, 5), ("aten::linear", Kind.OPERATOR, 50, 30),
    ]  # fmt: skip
    found = flame_picture(timeline_of(host, [("gemm", 30, 70, 4)]), [StepWindow(0, 0, 100)])
    assert found is not None
    paths = {}
    for node in found.nodes:
        above = paths[node.parent][0] if node.parent >= 0 else ""
        paths[len(paths)] = (f"{above}/{node.name}", node.host_ms * 1e6, node.device_ms * 1e6, node.calls)
    assert sorted(paths.values()) == [
        ("/step", 100.0, 70.0, 1.0), ("/step/aten::linear", 70.0, 70.0, 2.0),
        ("/step/aten::linear/aten::mm", 20.0, 70.0, 1.0),
    ]  # fmt: skip


def test_modules_stand_above_their_operators() -> None:
    builder = TimelineBuilder()
    lane = builder.lane(HOST)
    for start, module in ((0, "layer1.0.conv1"), (20, "layer1.0.bn1"), (40, "")):
        detail = builder.detail(Detail(module=module)) if module else -1
        builder.add(start, 10, Kind.OPERATOR, builder.name("aten::op"), lane, detail=detail)
    found = flame_picture(builder.build(source="x", format="jumar"), [StepWindow(0, 0, 100)])
    assert found is not None
    assert sorted((node.name, round(node.host_ms * 1e6)) for node in found.nodes) == [
        ("0", 20), ("aten::op", 10), ("aten::op", 10), ("aten::op", 10), ("bn1", 10), ("conv1", 10), ("layer1", 20),
    ]  # fmt: skip


def test_a_real_trace_has_its_pictures() -> None:
    timeline = read_timeline(REAL)
    titles = [section.title for section in profile_sections(timeline, "Ascend910B1")]
    assert titles == ["Timeline", "Call paths", "Operators by shape", "Roofline"]
    picture, flame = trace_picture(timeline), flame_picture(timeline, timeline.steps)
    assert picture is not None
    assert flame is not None
    assert picture.header["count"] == len(timeline.events)
    kernels = timeline.of(Kind.KERNEL, Kind.COPY) & timeline.on("device")
    roots = sum(node.device_ms for node in flame.nodes if node.parent == -1) * len(timeline.steps)
    assert roots == pytest.approx(timeline.events.duration_ns[kernels].sum() / 1e6, rel=0.01)


def test_operators_stand_by_their_shapes_with_own_and_started_time() -> None:
    builder = TimelineBuilder()
    main, stream = builder.lane(HOST), builder.lane(STREAM)
    small, large = (builder.detail(Detail(shapes=text, dtypes='["float"]')) for text in ("[[2, 2]]", "[[8, 8]]"))
    builder.add(0, 100, Kind.OPERATOR, builder.name("aten::linear"), main, detail=large)
    builder.add(10, 40, Kind.OPERATOR, builder.name("aten::mm"), main, detail=large)
    builder.add(20, 5, Kind.RUNTIME, builder.name("launch"), main, link=1)
    builder.add(60, 70, Kind.KERNEL, builder.name("gemm"), stream, link=1)
    builder.add(200, 30, Kind.OPERATOR, builder.name("aten::mm"), main, detail=small)
    table = shapes_table(builder.build(source="x", format="jumar"), [StepWindow(0, 0, 1000)])
    assert table is not None
    nanoseconds = [[round(float(cell or 0) * 1e6) for cell in row[4:]] for row in table.rows]
    assert [(row[0], row[1], times) for row, times in zip(table.rows, nanoseconds, strict=True)] == [
        ("aten::mm", "[[8, 8]]", [40, 70]), ("aten::linear", "[[8, 8]]", [60, 0]), ("aten::mm", "[[2, 2]]", [30, 0]),
    ]  # fmt: skip


def test_a_line_of_memory_keeps_its_peak() -> None:
    builder = TimelineBuilder()
    for time in range(5000):
        builder.count("memory npu:0", "bytes", time, 2.0**30 if time == 3333 else 2.0**20)
    (chart,) = memory_blocks(builder.build(source="x", format="jumar"))
    assert max(chart.series[0].y) == 1024.0  # type: ignore[union-attr]
    assert len(chart.series[0].y) <= 600  # type: ignore[union-attr]


def test_stacked_bars_are_shares_of_the_longest() -> None:
    chart = StackedBars(title="t", unit="ms", parts=("a", "b"), bars=(("x", (1.0, 3.0)), ("y", (0.0, 2.0))))
    view = stacked_view(chart)
    assert [[piece.percent for piece in pieces] for _, pieces, _ in view.bars] == [["25.000", "75.000"], ["50.000"]]


def test_a_dot_on_the_ridge_lies_on_the_roof() -> None:
    dot = Dot(name="x", intensity=10.0, achieved=1e12)
    chart = Roofline(title="t", roofs=(("float16", 1e12),), bandwidth=1e11, dots=(dot,))
    view = roof_view(chart, "id")
    ridge = view.roofs[0].path.split("L")[1].split()
    assert [float(view.dots[0].left) * 10, float(view.dots[0].top) * 10] == pytest.approx(
        [float(one) for one in ridge], abs=0.2
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: FlameNode(parent=-2, name="x", host_ms=0, device_ms=0, calls=0),
        lambda: StackedBars(title="t", unit="", parts=("a",), bars=(("x", (1.0, 2.0)),)),
        lambda: Roofline(title="t", roofs=(), bandwidth=1.0, dots=()),
        lambda: Roofline(title="t", roofs=(("a", 1.0),), bandwidth=1.0, dots=(Dot(name="x", intensity=0, achieved=1),)),
    ],
)
def test_blocks_refuse_what_cannot_be_drawn(make: object) -> None:
    with pytest.raises(ValueError, match="must"):
        make()  # type: ignore[operator]


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_script_of_the_page_reads_what_python_packs(tmp_path: Path) -> None:
    picture = trace_picture(read_timeline(REAL))
    assert picture is not None
    columns, details = unpacked(picture)
    script = resources.files("jumar.show.html").joinpath("templates/trace.js").read_text("utf-8")
    (tmp_path / "trace.js").write_text(script, "utf-8")
    (tmp_path / "payload").write_text(picture.payload, "utf-8")
    program = (
        "const t = require('./trace.js'), fs = require('fs'), zlib = require('zlib');"
        "const bytes = new Uint8Array(zlib.inflateSync(Buffer.from(fs.readFileSync('payload', 'utf8'), 'base64')));"
        f"const {{ columns, details }} = t.unpacked(bytes, {picture.header['count']});"
        "const sum = (values) => values.reduce((all, one, i) => (all + one * (i % 97)) % 1e9, 0);"
        "const sums = Object.fromEntries(Object.entries(columns).map(([title, values]) => [title, sum(values)]));"
        "const text = [t.timeText(1500), t.timeText(2e9)], after = t.firstAfter([1, 3, 3, 7], 0, 4, 3);"
        "console.log(JSON.stringify({ sums, details: details.length, text, after }));"
    )
    done = subprocess.run([str(NODE), "-e", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    weights = np.arange(picture.header["count"]) % 97
    assert json.loads(done.stdout) == {
        "sums": {title: int((values * weights).sum()) % 10**9 for title, values in columns.items()},
        "details": len(details), "text": ["1.5 µs", "2 s"], "after": 3,
    }  # fmt: skip
