"""Rules about timelines that need a device, on timelines made by hand; thresholds; what is never said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jumar.advise.bottlenecks.advice import Advice
from jumar.advise.checks import finders
from jumar.advise.timing import advise_timeline
from jumar.advise.timing.engine import RULES
from jumar.advise.timing.thresholds import Thresholds
from jumar.base.errors import InputError
from jumar.base.findings import Finding
from jumar.show.pages.advise import advise_page
from jumar.timeline.model.allocations import Allocations, Owner
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Detail, Kind, Lane, StepWindow, Timeline

MS = 1_000_000
HOST, DEVICE = Lane("main", "1", "host"), Lane("stream 0", "npu", "device", 0)
Row = tuple[str, Kind, Lane, float, float]
"""Name, kind, lane, begin and length in milliseconds after the step's begin."""


def made(
    rows: list[Row], num_steps: int = 5, step_ms: float = 10.0, details: dict[str, Detail] | None = None
) -> Timeline:
    """Return a timeline whose steps all hold these events."""
    builder = TimelineBuilder()
    for number in range(num_steps):
        begin = int(number * step_ms * MS)
        builder.add(begin, int(step_ms * MS), Kind.STEP, builder.name(f"ProfilerStep#{number}"), builder.lane(HOST))
        for name, kind, lane, start, length in rows:
            detail = builder.detail(details[name]) if details and name in details else -1
            place = builder.name(name), builder.lane(lane)
            builder.add(begin + int(start * MS), int(length * MS), kind, *place, detail=detail)
    steps = [StepWindow(i, int(i * step_ms * MS), int((i + 1) * step_ms * MS)) for i in range(num_steps)]
    return builder.build(steps=steps, steps_from="marks", source="made", format="kineto", device="npu")


def codes(advice: Advice) -> set[str]:
    return {finding.code for finding in advice.findings}


def saves(finding: Finding) -> float:
    return float(str(finding.evidence["saves_at_most_ms_per_step"]))


BUSY: list[Row] = [("aten::mm", Kind.OPERATOR, HOST, 0, 10), ("MatMul", Kind.KERNEL, DEVICE, 0.1, 9.8)]


def test_a_busy_device_is_fine() -> None:
    assert codes(advise_timeline(made(BUSY))) == set()


@pytest.mark.parametrize(
    ("code", "rows"),
    [
        ("JM422", [*BUSY, ("cudaDeviceSynchronize", Kind.WAIT, HOST, 9, 1)]),
        ("JM422", [*BUSY, ("torch.npu.empty_cache", Kind.RANGE, HOST, 9, 1)]),
        ("JM423", [*BUSY, ("gc", Kind.COLLECTOR, HOST, 9, 1)]),
        ("JM428", [("aten::add", Kind.OPERATOR, HOST, 0, 10), ("Add", Kind.KERNEL, DEVICE, 1, 0.01)]),
        ("JM431", [*BUSY[:1], ("MatMul", Kind.KERNEL, DEVICE, 0, 8), ("hcom_send_", Kind.COLLECTIVE, DEVICE, 7, 3)]),
        ("JM430", [*BUSY[:1], ("MatMul", Kind.KERNEL, DEVICE, 0, 8), ("TransData_1", Kind.KERNEL, DEVICE, 8, 2)]),
        ("JM421", [("enumerate(DataLoader)", Kind.DATA, HOST, 0, 4), *BUSY[:1], ("MatMul", Kind.KERNEL, DEVICE, 4, 6)]),
    ],
)  # fmt: skip
def test_each_is_found(code: str, rows: list[Row]) -> None:
    advice = advise_timeline(made(rows))
    assert codes(advice) == {code}
    (finding,) = advice.findings
    assert 0 < saves(finding) <= 10


def test_conversions_that_undo_each_other_name_what_stands_between() -> None:
    details = {
        "TransData": Detail(more=(("Input Formats", "ND"), ("Output Formats", "NC1HWC0"))),
        "TransData_2": Detail(more=(("Input Formats", "NC1HWC0"), ("Output Formats", "ND"))),
    }
    rows: list[Row] = [
        *BUSY[:1], ("TransData", Kind.KERNEL, DEVICE, 0, 2), ("Conv2D", Kind.KERNEL, DEVICE, 2, 5),
        ("TransData_2", Kind.KERNEL, DEVICE, 7, 3),
    ]  # fmt: skip
    (finding,) = advise_timeline(made(rows, details=details)).findings
    assert finding.evidence["between"] == "Conv2D"
    assert "undo" in finding.message


def test_kernels_on_the_general_processors_are_named() -> None:
    details = {"Sort": Detail(more=(("Accelerator Core", "AI_CPU"),))}
    rows: list[Row] = [*BUSY[:1], ("MatMul", Kind.KERNEL, DEVICE, 0, 8), ("Sort", Kind.KERNEL, DEVICE, 8, 2)]
    (finding,) = advise_timeline(made(rows, details=details)).findings
    assert (finding.code, finding.where.operator) == ("JM429", "Sort")


def test_what_hides_behind_calculation_costs_nothing() -> None:
    rows: list[Row] = [*BUSY, ("hcom_allReduce_", Kind.COLLECTIVE, Lane("stream 1", "npu", "device", 0), 2, 6)]
    assert codes(advise_timeline(made(rows))) == set()


def test_the_order_is_by_what_is_saved_and_all_together_never_more_than_the_step() -> None:
    rows: list[Row] = [
        *BUSY[:1], ("MatMul", Kind.KERNEL, DEVICE, 0, 3), ("hcom_allReduce_", Kind.COLLECTIVE, DEVICE, 3, 5),
        ("cudaDeviceSynchronize", Kind.WAIT, HOST, 3, 7),
    ]  # fmt: skip
    advice = advise_timeline(made(rows))
    assert [finding.code for finding in advice.findings] == ["JM422", "JM431"]
    assert [saves(finding) for finding in advice.findings] == [7, 5]


def test_an_empty_timeline_checks_nothing_and_says_so() -> None:
    advice = advise_timeline(TimelineBuilder().build(source="made", format="kineto"))
    assert not advice.checked
    assert {gap.code for gap in advice.not_checked} == {module.RULE.code for module in finders(RULES)}


def test_thresholds_are_the_users_to_change(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text("[JM422]\nshare = 0.5\n")
    timeline = made([*BUSY, ("cudaDeviceSynchronize", Kind.WAIT, HOST, 9, 1)])
    assert codes(advise_timeline(timeline, Thresholds.load(own))) == set()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[JM42]\nshare = 1\n", "did you mean JM4"),
        ("[JM422]\nshar = 1\n", "did you mean share"),
        ("[JM422]\nshare = 'a'\n", "must hold numbers"),
        ("[JM422\n", "must be a TOML file"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused(text: str, words: str, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(text)
    with pytest.raises(InputError, match=words):
        Thresholds.load(own)


def test_estimated_times_are_called_estimates() -> None:
    timeline = replace(made([*BUSY, ("gc", Kind.COLLECTOR, HOST, 9, 1)]), facts={"is_estimate": "true"})
    advice = advise_timeline(timeline)
    assert "estimates" in advice.device
    assert [(finding.evidence["is_estimate"], finding.confidence) for finding in advice.findings] == [
        (True, "possible")
    ]


def test_memory_that_is_reserved_and_not_used_is_named_with_the_peaks_owner() -> None:
    memory = Allocations(
        device="npu:0", peak_bytes=6 * 10**9, peak_ns=None, owners=[Owner("train.py:41", 4 * 10**9, 3)],
        allocated_bytes=5 * 10**9, reserved_bytes=10**10, peak_reserved_bytes=10**10, num_device_frees=7,
    )  # fmt: skip
    (finding,) = advise_timeline(replace(made(BUSY), allocations=[memory])).findings
    assert (finding.code, finding.where.line) == ("JM435", 41)
    assert "3.73 GiB" in finding.message
    assert "7 times" in finding.message
    tight = replace(memory, peak_bytes=9 * 10**9)
    assert not advise_timeline(replace(made(BUSY), allocations=[tight])).findings


def test_a_profile_without_operators_is_not_judged() -> None:
    gaps: list[Row] = [("gc", Kind.COLLECTOR, HOST, 0, 1)]
    advice = advise_timeline(made(gaps))
    assert (list(advice.findings), list(advice.checked)) == ([], [])


def test_a_profile_without_steps_says_that_it_counts_as_one() -> None:
    advice = advise_timeline(replace(made(BUSY), steps=(), steps_from="none"))
    assert advice.warnings == ("its steps are not known: the whole of it counts as one step",)
    assert "counts as one step" in " ".join(advise_page(advice).verdict.details)


def test_of_a_profile_without_steps_no_finding_speaks_of_a_step() -> None:
    rows: list[Row] = [*BUSY, ("gc", Kind.COLLECTOR, HOST, 9, 1), ("cudaDeviceSynchronize", Kind.WAIT, HOST, 9, 1)]
    findings = advise_timeline(replace(made(rows), steps=(), steps_from="none")).findings
    assert {finding.code for finding in findings} == {"JM422", "JM423"}
    assert not any("step" in finding.message for finding in findings)
