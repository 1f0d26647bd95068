"""Pairs that surely agree are not judged at once: nothing that is said differs from judging every pair."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_builder import Run, mlp
from scoreboard.cases import all_cases
from scoreboard.harness import Runner

from jumar.comparison import CompareOptions, Comparison, compare
from jumar.comparison.judge.agreement import Agreements

NAMES = (
    "aten::add.Tensor",
    "aten::add_.Tensor",
    "aten::sub.Tensor",
    "aten::relu",
    "aten::exp",
    "aten::view",
    "aten::clone",
    "aten::gt.Scalar",
    "aten::where.self",
    "aten::empty_like",
    "aten::bernoulli",
    "aten::max.dim",
    "aten::copy_",
    "aten::cat",
)


def both(reference: Run, target: Run, options: CompareOptions | None = None) -> tuple[Comparison, Comparison]:
    """Return the comparison as it is made, and with every pair judged."""
    quick = compare(reference, target, options=options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Agreements, "of", lambda _self, _reference, _target: None)
        return quick, compare(reference, target, options=options)


def told(comparison: Comparison) -> dict[str, object]:
    return comparison.to_json(all_operators=True)


class Sides:
    """Two runs with the arrays that each has made so far."""

    def __init__(self, seed: int) -> None:
        self.runs = Run(), Run(device="npu")
        self.generator = np.random.default_rng(seed)
        start = [self.generator.standard_normal((4, 6)).astype(np.float32) for _ in range(2)]
        self.held = [list(map(np.copy, start)), list(map(np.copy, start))]

    def difference(self, off: float, *, everywhere: bool) -> np.ndarray:
        where = np.ones((4, 6)) if everywhere else np.eye(4, 6, 2)[:, ::-1]
        return off * where * self.generator.standard_normal((4, 6))

    def call(self, name: str, read: list[int], off: np.ndarray, dtype: str) -> None:
        for side in (0, 1):
            inputs = [self.held[side][place] for place in read]
            result = 0.5 * sum(inputs) + (off if side and off.any() else 0.0)
            output = np.asarray(np.nan_to_num(result, nan=7.0) if dtype == "int64" else result).astype(dtype)
            if name.endswith("_.Tensor") and inputs[0].dtype == output.dtype:
                inputs[0][...] = output
                output = inputs[0]
            self._add(side, name, inputs, output)

    def slice(self, place: int, row: int) -> None:
        """Read one row of an array, repeated to its shape, in the same memory."""
        for side, run in enumerate(self.runs):
            base = self.held[side][place]
            part = np.repeat(base[row : row + 1], 4, axis=0)
            run._storages[id(part)] = run._storages.setdefault(id(base), len(run._storages) + 1)
            self._add(side, "aten::as_strided", [base], part)

    def alone(self, side: int, place: int) -> None:
        """Call something on one side alone; the other side goes on with what was there."""
        for other in (0, 1):
            value = self.held[other][place].copy()
            self.held[other].append(value)
            if other == side:
                self.runs[side].call("aten::flip", [self.held[side][place]], [value], path="net.0")

    def _add(self, side: int, name: str, inputs: list[np.ndarray], output: np.ndarray) -> None:
        self.held[side].append(output)
        self.runs[side].call(name, inputs, [output], path=f"net.{len(self.held[side]) % 3}")


@st.composite
def pairs_of_runs(draw: st.DrawFn) -> tuple[Run, Run]:
    """Two runs of one chain of calls; the target is off by nothing, rounding, or more, here and there."""
    sides = Sides(draw(st.integers(0, 1 << 16)))
    half = draw(st.sampled_from(["float32", "float16", "int64"]))
    for _ in range(draw(st.integers(1, 12))):
        place = draw(st.integers(0, len(sides.held[0]) - 1))
        what = draw(st.sampled_from(["call"] * 6 + ["slice", "alone"]))
        if what == "slice":
            sides.slice(place, draw(st.integers(0, 3)))
        elif what == "alone":
            sides.alone(draw(st.integers(0, 1)), place)
        else:
            read = [place, *draw(st.lists(st.integers(0, len(sides.held[0]) - 1), max_size=1))]
            off = draw(st.sampled_from([0.0, 0.0, 1e-8, 1e-7, 3e-7, 1e-5, 1e-2, float("nan")]))
            difference = sides.difference(off, everywhere=draw(st.booleans()))
            dtype = draw(st.sampled_from(["float32", half]))
            sides.call(draw(st.sampled_from(NAMES)), read, difference, dtype)
    for run in sides.runs:
        run.loss(1.0)
    return sides.runs


@settings(derandomize=True, deadline=None, max_examples=100)
@given(pairs_of_runs(), st.sampled_from([1.0, 0.01, 30.0]), st.booleans())
def test_made_up_runs_are_told_about_as_before(runs, strictness, all_steps) -> None:
    options = CompareOptions(tolerance_scale=strictness, all_steps=all_steps)
    quick, judged = both(*runs, options)
    assert told(judged) == told(quick)


def test_what_a_tolerance_allows_for_is_found_out_when_a_part_shows_more() -> None:
    sides = Run(), Run(device="npu")
    base = np.random.default_rng(0).standard_normal((256, 64)).astype(np.float32)
    base[0, 0], base[7] = 100.0, 0.5
    for side, run in enumerate(sides):
        output = base.copy()
        output[7, 3] += 1e-4 * side
        run.call("aten::mm", [base, base[:64]], [output])
        part = output[7]
        run._storages[id(part)] = run._storages[id(output)]
        run.call("aten::neg", [part], [-part])
    quick, judged = both(*sides)
    assert told(judged) == told(quick)
    assert [diff.status for diff in quick.operators] == ["agree", "inherited"]


def test_a_shuffle_of_one_side_is_named_through_calls_that_agree() -> None:
    sides = Run(), Run(device="npu")
    data, weight = (np.random.default_rng(seed).standard_normal((16, 16)).astype(np.float32) for seed in (0, 1))
    for side, run in enumerate(sides):
        rows = run.call("aten::flip", [data], [data[::-1].copy()]) if side else data
        twice = run.call("aten::mul.Tensor", [rows], [rows * 2])
        run.call("aten::mm", [twice, weight], [twice.T @ weight])
    quick, judged = both(*sides)
    assert told(judged) == told(quick)
    assert quick.first_divergence.target_name == "aten::flip"


@pytest.mark.parametrize("noise", [0.0, 1e-8, 1e-7, 1e-6, 1e-4, 1e-2])
def test_a_network_is_told_about_as_before(noise) -> None:
    generator = np.random.default_rng(3)
    wrong = {f"layers.{layer}": lambda x: x * (1 + noise * generator.standard_normal(x.shape)) for layer in range(4)}
    reference, target = Run(), Run()
    for step in range(2):
        mlp(reference, step=step)
        mlp(target, step=step, wrong=wrong)
    quick, judged = both(reference, target, CompareOptions(all_steps=True))
    assert told(judged) == told(quick)


@pytest.mark.parametrize("name", ["other kernels", "GELU variant", "backward: product", "emulated NPU, strict"])
def test_a_training_is_told_about_as_before(tmp_path: Path, name) -> None:
    case = next(case for case in all_cases() if (case.name, case.model) == (name, "gpt"))
    seen: list[tuple[Comparison, Comparison]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scoreboard.harness.compare", lambda *runs: seen.append(both(*runs)) or seen[-1][0])
        Runner(tmp_path).run(case, "sketch", seed=0)
    quick, judged = seen[0]
    assert told(judged) == told(quick)


def test_most_pairs_of_healthy_runs_are_not_judged(tmp_path) -> None:
    reference, target = mlp(Run()), mlp(Run(device="npu"))
    comparison = compare(reference, target)
    assert {"agree": len(comparison.operators)} == comparison.num_operators
    assert comparison.operators.judged() == []
