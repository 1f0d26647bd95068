"""Rules go through the steps of a run together: each step is read once, and no rule keeps another waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jumar.advise.bottlenecks.engine import side_by_side
from jumar.advise.bottlenecks.run import Run, StepView
from jumar.base.findings import Finding, Severity
from jumar.soc.profiles import get_soc

RUN = Run(soc=get_soc("Ascend910B1"), accelerator="npu")
STEPS = [StepView.build(number, []) for number in range(50)]


def found(message: str) -> Finding:
    return Finding(code="JM400", severity=Severity.INFO, message=message)


def counts(run: Run) -> Iterator[Finding]:
    yield found(f"{sum(1 for _ in run.steps)} steps")


def stops_early(run: Run) -> Iterator[Finding]:
    for step in run.steps:
        if step.step == 3:
            yield found("step 3")
            return


def looks_at_none(run: Run) -> list[Finding]:
    return [found(run.soc.name)]


def fails(run: Run) -> Iterator[Finding]:
    for step in run.steps:
        raise ValueError(f"step {step.step}")
    yield found("never")


def test_every_rule_sees_all_steps_and_may_end_early():
    answers = side_by_side([counts, stops_early, looks_at_none, counts], RUN, iter(STEPS))
    messages = [[outcome.message for outcome in answer] for answer in answers]
    assert messages == [["50 steps"], ["step 3"], ["Ascend910B1"], ["50 steps"]]


def test_the_error_of_a_rule_is_raised_after_the_others_have_ended():
    with pytest.raises(ValueError, match="step 0"):
        side_by_side([counts, fails, counts], RUN, iter(STEPS))


def test_an_error_while_a_step_is_read_ends_all_rules():
    def broken() -> Iterator[StepView]:
        yield STEPS[0]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        side_by_side([counts, counts], RUN, broken())


def test_no_rule_at_all_answers_nothing():
    assert side_by_side([], RUN, iter(STEPS)) == []
