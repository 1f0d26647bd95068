from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from recording_builder import Array, Run, mlp

from jumar.comparison import Comparison, compare
from jumar.comparison.diagnosis import Diagnosis, diagnose
from jumar.comparison.diagnosis.second_pass import SecondPass, second_pass
from jumar.show.compare.summary import MAX_LINES, WIDTH, summary_text


def broken(out: Array) -> Array:
    out = out.copy()
    out[3, 4] = np.inf
    return out


def in_backward(run: Run, factor: float) -> Run:
    mlp(run)
    gradient = np.ones((4, 4), np.float32)
    run.call("aten::gelu_backward", [gradient], [gradient * np.float32(factor)], path="layers.3", phase="backward")
    return run


def extra_call(run: Run) -> Run:
    mlp(run)
    data = np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32)
    run.call("aten::flip", [data], [np.flip(data, 1).copy()], path="tail")
    return run


def without_values(run: Run) -> Run:
    return mlp(run)


CASES: dict[str, tuple[Callable[[], tuple[Run, Run]], str]] = {
    "agree": (lambda: (mlp(Run()), mlp(Run())), "The runs agree: "),
    "forward": (
        lambda: (mlp(Run()), mlp(Run(), wrong={"layers.1": lambda out: out * 1.01})),
        "The runs diverge first at aten::mm in layers.1",
    ),
    "forward, tensors": (
        lambda: (mlp(Run(values="tensors")), mlp(Run(values="tensors"), wrong={"layers.1": lambda out: out * 1.01})),
        "The runs diverge first at aten::mm in layers.1",
    ),
    "backward": (
        lambda: (in_backward(Run(), 1), in_backward(Run(), 1.1)),
        "The runs diverge first at aten::gelu_backward in layers.3",
    ),
    "nonfinite": (
        lambda: (mlp(Run()), mlp(Run(), wrong={"layers.2": broken})),
        "The runs diverge first at aten::mm in layers.2",
    ),
    "data": (lambda: (mlp(Run()), mlp(Run(), data_seed=9)), "The runs cannot be compared: The inputs of step 0"),
    "parameters": (lambda: (mlp(Run()), mlp(Run(), seed=9)), "The runs cannot be compared: "),
    "no common step": (lambda: (mlp(Run()), mlp(Run(), step=7)), "The runs cannot be compared: "),
    "no values": (lambda: (mlp(Run()), without_values(Run(values="none"))), "The runs cannot be compared: "),
}


def told(case: str) -> tuple[Comparison, Diagnosis, SecondPass | None, str]:
    reference, target = CASES[case][0]()
    for run in (reference, target):
        run.info = replace(run.info, command=("examples/a_script_with_a_long_name.py", "--epochs", "1", "--lr=1e-3"))
        run.warnings += [f"step-00000{step}-rank-0.parquet is cut short or damaged and is left out" for step in (7, 8)]
    comparison = compare(reference, target)
    diagnosis = diagnose(comparison, reference, target)
    comparison = replace(comparison, findings=(*comparison.findings, *diagnosis.findings))
    second = second_pass(comparison.reference, comparison.target, diagnosis.suspects, "suspects.json")
    return comparison, diagnosis, second, summary_text(comparison, diagnosis, second)


@pytest.mark.parametrize("case", CASES)
def test_the_summary_starts_with_the_answer_and_takes_fifteen_lines(case: str) -> None:
    *_, text = told(case)
    lines = text.splitlines()
    assert " ".join(text.split()).startswith(CASES[case][1])
    assert len(lines) <= MAX_LINES
    assert [line for line in lines if len(line) > WIDTH + 2 and not line.startswith("    jumar ")] == []


@pytest.mark.parametrize("case", [case for case in CASES if case != "agree"])
def test_what_is_not_agreement_says_what_to_do(case: str) -> None:
    assert "  next: " in told(case)[-1]


def test_agreement_asks_for_nothing() -> None:
    text = told("agree")[-1]
    assert "next:" not in text
    assert "JM3" not in text


def test_the_commands_of_the_second_pass_are_whole_lines() -> None:
    _, _, second, text = told("forward")
    assert second is not None
    assert f"    {second.reference}" in text.splitlines()
    assert f"    {second.target}" in text.splitlines()


def test_the_hypothesis_stands_below_the_divergence() -> None:
    text = " ".join(told("forward, tensors")[-1].split())
    assert "certain: The target is 1.01 times the reference" in text
    assert text.index("JM301") < text.index("1.01 times the reference") < text.index("next:")


def test_the_least_important_lines_go_first_where_there_is_no_room() -> None:
    comparison, diagnosis, second, _ = told("forward")
    crowded = replace(comparison, headline="word " * 200, findings=comparison.findings * 3)
    text = summary_text(crowded, diagnosis, second)
    assert len(text.splitlines()) <= MAX_LINES
    assert "losses" in text
    assert text.splitlines()[2].endswith("…")


def test_the_summary_needs_no_diagnosis() -> None:
    comparison, *_ = told("forward")
    assert summary_text(comparison).startswith("The runs diverge first at aten::mm in layers.1")
