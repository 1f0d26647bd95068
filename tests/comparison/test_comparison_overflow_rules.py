"""What follows from rows alone: skipped steps, saturated values, other ranks, modules, what was not recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from recording_builder import Run

from jumar.base.errors import UsageError
from jumar.comparison.overflow import OverflowOptions, OverflowReport, Skip, find_overflow
from jumar.comparison.overflow.options import check_exclusive, check_mode
from jumar.comparison.overflow.skips import persistent
from jumar.recording import RunInfo, StepInfo
from jumar.show.compare.overflow import overflow_text

INF, NAN = np.inf, np.nan


class Steps(Run):
    """A run that knows of its steps."""

    def __init__(self, infos: dict[int, StepInfo] | None = None, soc: str = "", device: str = "cpu") -> None:
        super().__init__(device=device)
        self.info = RunInfo(device=device, soc=soc, values="stats")
        self.infos = infos or {}

    def step_info(self, step: int, rank: int = 0) -> StepInfo:
        return self.infos.get(step, StepInfo())


def half(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float16)


def codes(report: OverflowReport) -> list[str]:
    return [finding.code for finding in report.findings]


def update(run: Run, gradient: np.ndarray, step: int, parameter: np.ndarray | None = None) -> None:
    """Add a parameter as it is at the end of a step."""
    value = np.ones(2, np.float32) if parameter is None else parameter
    run.call("weight", [gradient], [value], path="fc", phase="optimizer", kind="parameter", step=step)
    rows = run._rows[step, 0]
    rows[-1] = replace(rows[-1], inputs=(replace(rows[-1].inputs[0], name="input.grad"),))


def scaled_steps(num_steps: int, skipped: set[int], scale: float = 65536.0) -> Steps:
    """Return a run whose gradients overflow in float16 in the steps `skipped`, and whose scaler says so."""
    run = Steps()
    for step in range(num_steps):
        is_skipped = step in skipped
        run.infos[step] = StepInfo(loss_scale=scale, skipped=is_skipped)
        scale = max(scale / 2, 1.0) if is_skipped else scale
        run.loss(1.0, step)
        gradient = half(1, INF if is_skipped else 2)
        run.call("aten::mm", [half(1, 2), half(3, 4)], [gradient], phase="backward", path="fc", step=step)
        update(run, gradient, step)
    return run


@pytest.mark.parametrize(
    ("num_steps", "skipped", "scale", "is_persistent"),
    [
        (6, {0, 1, 2}, 65536.0, False),
        (12, set(range(8)), 65536.0, True),
        (12, set(range(7)), 65536.0, False),
        (12, {0, 2, 4, 6, 8, 10}, 65536.0, False),
        (3, {0, 1, 2}, 65536.0, True),
        (2, {0, 1}, 65536.0, False),
        (9, {4}, 1.0, True),
    ],
)
def test_skipping_is_a_finding_only_when_it_does_not_end(
    num_steps: int, skipped: set[int], scale: float, is_persistent: bool
) -> None:
    report = find_overflow(scaled_steps(num_steps, skipped, scale))
    assert ("JM332" in codes(report)) == is_persistent
    assert [skip.step for skip in report.skips] == sorted(skipped)
    if scale > 1:
        assert {origin.fate for origin in report.benign} == {"loss-scale"}
        assert report.origins == ()


def test_a_gradient_that_is_wrong_at_a_scale_of_one_is_not_the_scales_fault() -> None:
    report = find_overflow(scaled_steps(1, {0}, 1.0))
    assert report.first is not None
    assert report.first.reaches == "the gradient of fc.weight"


def test_an_update_left_out_without_a_scaler_is_silent_skipping() -> None:
    run = Steps()
    gradient = np.array([1, INF], np.float32)
    run.loss(1.0)
    run.call("aten::mm", [np.ones(2, np.float32)], [gradient], phase="backward", path="fc", dtype="bfloat16")
    update(run, gradient, 0)
    report = find_overflow(run)
    assert report.skips == (Skip(step=0, rank=0, loss_scale=None, silent=True, operator="aten::mm", module_path="fc"),)
    assert set(codes(report)) >= {"JM330", "JM332"}


def test_an_update_with_a_gradient_that_is_not_finite_is_no_skip() -> None:
    run = Steps()
    gradient = np.array([1, NAN], np.float32)
    run.call("aten::mm", [np.ones(2, np.float32)], [gradient], phase="backward", path="fc")
    update(run, gradient, 0, np.array([1, NAN], np.float32))
    report = find_overflow(run)
    assert (report.skips, codes(report)) == ((), ["JM330"])


def test_the_scaler_check_of_an_older_recording_tells_of_the_skip() -> None:
    run = Steps()
    run.loss(1.0)
    gradient = half(1, INF)
    run.call("aten::mm", [half(1, 2)], [gradient], phase="backward", path="fc")
    flag, inverse = np.ones(1, np.float32), np.array(1 / 1024, np.float32)
    run.call(
        "aten::_amp_foreach_non_finite_check_and_unscale_",
        [gradient, flag, inverse],
        [gradient, flag],
        phase="optimizer",
    )
    report = find_overflow(run)
    assert [(skip.step, skip.loss_scale, skip.silent) for skip in report.skips] == [(0, 1024.0, False)]
    assert report.origins == ()


def test_runs_of_skips_are_counted_over_neighbouring_steps_only() -> None:
    skips = [Skip(step=step, rank=0, loss_scale=64.0, silent=False) for step in (0, 1, 2, 3, 10, 11, 12, 13)]
    assert persistent(skips, range(20)) == ()


# -- saturation ---------------------------------------------------------------------------------


def saturated(value: float, soc: str, after: str = "aten::mean", **options: Any) -> OverflowReport:
    run = Steps(soc=soc, device="npu (emulated)" if soc else "cpu")
    x = half(200, 300)
    y = run.call("aten::mul.Tensor", [x, half(400, 500)], [half(value, 1)], path="fc")
    z = run.call(after, [y], [half(1, 2)])
    run.call("loss", [], [z], kind="loss", path="")
    return find_overflow(run, options=OverflowOptions(**options))


def test_the_last_number_of_float16_is_an_overflow_where_the_chip_saturates() -> None:
    report = saturated(65504, "Ascend910A")
    assert codes(report) == ["JM333"]
    assert report.findings[0].severity.label == "error"
    assert report.headline == (
        "The first operator that overflows is aten::mul.Tensor in fc (Net), forward of step 0, train.py:1: on this "
        "chip it saturates."
    )
    assert report.frames[-1].operator == "aten::mul.Tensor"


@pytest.mark.parametrize("value", [65504, 65472, 51200, 38400, -51200])
def test_suspicious_magnitudes_are_a_warning_elsewhere(value: float) -> None:
    report = saturated(value, "")
    assert [(finding.code, finding.severity.label) for finding in report.findings] == [("JM333", "warning")]


@pytest.mark.parametrize("value", [51168, 30000, 65440])
def test_other_magnitudes_are_not(value: float) -> None:
    assert codes(saturated(value, "Ascend910A")) == []


def test_a_lowest_number_that_a_softmax_takes_up_is_no_finding() -> None:
    assert codes(saturated(-65504, "Ascend910A", after="aten::_softmax")) == []


def test_values_that_were_there_before_are_not_blamed() -> None:
    run = Steps()
    x = half(65504, 1)
    y = run.call("aten::mul.Tensor", [x, half(1, 1)], [half(65504, 1)])
    run.call("loss", [], [y], kind="loss", path="")
    assert codes(find_overflow(run)) == []


# -- ranks, modules, gaps -----------------------------------------------------------------------


def test_a_rank_that_was_given_nan_by_a_collective_gives_way_to_the_rank_that_made_it() -> None:
    run = Steps()
    for rank in (0, 1):
        gradient = np.array([1, 1], np.float32) if rank == 0 else np.array([1, NAN], np.float32)
        run.call("aten::mm", [np.ones(2, np.float32)], [gradient], phase="backward", path="fc", rank=rank)
        run.call("c10d::allreduce_", [gradient], [gradient], phase="backward", rank=rank)
        reduced = gradient
        if rank == 0:  # the sum has arrived
            run._rows[0, 0][-1] = replace(run._rows[0, 0][-1], outputs=())
            rows = run._rows[0, 0]
            run.call("aten::mul_.Tensor", [np.array([1, NAN], np.float32)], [reduced], phase="optimizer", rank=0)
            late = replace(rows[-1].inputs[0], storage=rows[0].outputs[0].storage)
            wrong = replace(late, name="output.0")
            rows[1] = replace(rows[1], outputs=(replace(rows[1].inputs[0], name="output.0"),))
            rows[-1] = replace(rows[-1], inputs=(late,), outputs=(wrong,))
        else:
            run.call("aten::mul_.Tensor", [gradient], [gradient], phase="optimizer", rank=1)
    report = find_overflow(run)
    assert [(origin.rank, origin.kind) for origin in report.origins] == [(1, "invalid"), (0, "peer")]


def test_modules_alone_name_the_innermost_module() -> None:
    run = Steps()
    x, bad = np.ones(2, np.float32), np.array([1, INF], np.float32)
    run.call("Linear", [x], [bad], kind="module", path="body.fc")
    run.call("Sequential", [x], [bad], kind="module", path="body")
    run.call("Net", [x], [bad], kind="module", path="")
    report = find_overflow(run)
    assert report.first is not None
    assert (report.first.operator, report.first.module_path, report.first.reaches) == (
        "Linear",
        "body.fc",
        "the output of the model",
    )
    assert "only modules were recorded" in report.notes[0]


def test_a_recording_without_counts_says_nothing_and_says_so() -> None:
    run = Steps()
    run.call("aten::exp", [np.ones(2)], [np.ones(2)])
    rows = run._rows[0, 0]
    bare = [replace(t, num_nan=None, num_inf=None, minimum=None, maximum=None) for t in rows[0].outputs]
    rows[0] = replace(rows[0], outputs=tuple(bare))
    report = find_overflow(run)
    assert [(f.code, f.severity.label) for f in report.findings] == [("JM335", "error")]
    assert report.headline == "Nothing can be said of cpu: it holds no counts of NaN and Inf."


def test_what_was_not_covered_is_said() -> None:
    run = Steps()
    run.call("aten::exp", [np.ones(2)], [np.ones(2)])
    run.warnings.append("a region was compiled")
    assert "not all    a region was compiled" in overflow_text(find_overflow(run))


# -- modes --------------------------------------------------------------------------------------


def test_later_chips_have_one_mode() -> None:
    check_mode("all", "Ascend910B1")
    check_mode("aicore_overflow", "Ascend910A")
    check_mode("aicore_overflow", "")
    with pytest.raises(UsageError, match='on Ascend910B1 the overflow mode must be "all"; got "aicore_overflow"'):
        check_mode("aicore_overflow", "Ascend910B1")


def test_overflows_and_whole_tensors_exclude_each_other() -> None:
    check_exclusive("all", "stats")
    with pytest.raises(UsageError, match="cannot be collected at once"):
        check_exclusive("all", "tensors")


def test_options_are_checked_when_they_are_built() -> None:
    with pytest.raises(UsageError, match="an overflow mode must be one of"):
        OverflowOptions(mode="both")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least 1; got 0"):
        OverflowOptions(num_frames=0)


def test_the_report_is_strict_json() -> None:
    import json

    report = find_overflow(scaled_steps(2, {0}))
    text = json.dumps(report.to_json(), allow_nan=False)
    assert json.loads(text)["headline"] == report.headline
