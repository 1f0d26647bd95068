"""What is looked at before operators: settings, ranks, steps, data, parameters, random numbers, optimizers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from recording_builder import Run, mlp, tensor_row

from jumar.base.findings import Finding, Severity
from jumar.comparison import CompareOptions, Comparison, compare
from jumar.comparison.align.steps import find_offset, losses_alike
from jumar.comparison.model.settings import argument_settings, setting_differences
from jumar.recording import CallRow, RunInfo, StepInfo
from jumar.recording.sketch import sketch_of


def finding(comparison: Comparison, code: str) -> Finding:
    found = [finding for finding in comparison.findings if finding.code == code]
    assert found, (comparison.headline, [finding.message for finding in comparison.findings])
    return found[0]


def codes(comparison: Comparison) -> list[str]:
    return [finding.code for finding in comparison.findings]


class Sketched(Run):
    """A run whose tensors carry sketches."""

    def call(
        self, name: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], **settings: Any
    ) -> np.ndarray:
        result = super().call(name, inputs, outputs, **settings)
        rows = self._rows[settings.get("step", 0), settings.get("rank", 0)]
        rows[-1] = replace(
            rows[-1],
            inputs=tuple(replace(t, sketch=sketch_of(a)) for t, a in zip(rows[-1].inputs, inputs, strict=True)),
            outputs=tuple(replace(t, sketch=sketch_of(a)) for t, a in zip(rows[-1].outputs, outputs, strict=True)),
        )
        return result


# Settings


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--lr", "1e-3", "--amp"], {"argument --lr": "1e-3", "argument --amp": True}),
        (["--lr=0.1", "data.txt"], {"argument --lr": "0.1", "argument 1": "data.txt"}),
        (["--shift", "-0.5", "-v"], {"argument --shift": "-0.5", "argument -v": True}),
        (["--output-dir", "x", "--device", "npu"], {}),
    ],
)
def test_options_of_the_script_are_settings_without_places(arguments, expected) -> None:
    assert argument_settings(RunInfo(command=("train.py", *arguments))) == expected


def test_options_that_can_change_numbers_are_warnings_and_equal_numbers_no_difference() -> None:
    first = RunInfo(command=("train.py", "--lr", "1e-3", "--layers", "2", "--epochs", "1"), torch_version="2.6.0")
    second = RunInfo(command=("train_npu.py", "--lr", "0.001", "--layers", "3", "--batch-size", "8", "--epochs", "1"))
    found = {diff.name: diff.severity for diff in setting_differences(first, second)}
    assert found == {
        "argument --batch-size": Severity.WARNING,
        "argument --layers": Severity.INFO,
        "torch_version": Severity.INFO,
    }


def test_versions_of_libraries_are_compared() -> None:
    first, second = (RunInfo(environment={"libraries": {"timm": version}}) for version in ("1.0", "0.9"))
    assert [str(diff) for diff in setting_differences(first, second)] == ["timm_version '1.0' against '0.9'"]


# Steps


def test_an_offset_between_the_steps_is_found_by_the_losses_and_said() -> None:
    reference, target = Run(), Run()
    for step in range(4):
        mlp(reference, data_seed=step + 1, step=step)
        mlp(target, data_seed=step + 1, step=step + 2)
    comparison = compare(reference, target)
    assert comparison.status == "agree", comparison.headline
    assert "n+2 of the target" in finding(comparison, "JM315").message
    assert all(pair.agrees for pair in comparison.losses if pair.agrees is not None)
    assert list(comparison.steps) == [0, 1, 2, 3]


def test_a_given_offset_is_taken_and_a_wrong_one_shows() -> None:
    reference, target = Run(), Run()
    for step in range(3):
        mlp(reference, data_seed=step + 1, step=step)
        mlp(target, data_seed=step + 1, step=step)
    assert compare(reference, target, options=CompareOptions(offset=0)).status == "agree"
    assert compare(reference, target, options=CompareOptions(offset=1)).status == "incomparable"


@pytest.mark.parametrize(
    ("reference", "target", "expected"),
    [
        ([(0, 1.0), (1, 2.0), (2, 3.0)], [(0, 1.0), (1, 2.5), (2, 3.0)], 0),
        ([(0, 1.0), (1, 2.0), (2, 3.0)], [(0, 9.0), (1, 1.0), (2, 2.0)], 1),
        ([(0, 1.0), (1, 2.0), (2, 3.0)], [(0, 2.0), (1, 3.0)], -1),
        ([(0, 1.0), (1, 2.0)], [(0, 2.0), (1, 7.0)], 0),
        ([(0, 1.0), (1, 2.0), (2, 2.0), (3, 2.0)], [(0, 2.0), (1, 2.0), (2, 2.0)], 0),
        ([(0, 1.0), (1, float("nan"))], [(0, 2.0), (1, float("nan"))], 0),
        ([], [(0, 1.0)], 0),
    ],
)
def test_an_offset_is_believed_only_where_all_losses_agree_and_differ_from_each_other(
    reference, target, expected
) -> None:
    assert find_offset(reference, target) == expected


def test_another_number_of_backward_passes_in_a_step_is_said() -> None:
    reference, target = mlp(Run()), mlp(Run())
    mlp(target, data_seed=5)
    comparison = compare(reference, target)
    assert "1 backward passes and one of the target 2" in finding(comparison, "JM315").message
    assert comparison.first_divergence is None


@pytest.mark.parametrize("size", [8, 16])
def test_micro_batches_of_another_size_leave_only_the_parameters_to_compare(size) -> None:
    """`size` rows a micro-batch, 16 in a step."""

    def run(size: int, spoiled: float = 1.0) -> Run:
        made = Run()
        weight = np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32)
        for part in np.split(samples(), 16 // size):
            out = made.call("aten::mm", [part, weight], [part @ weight], path="fc")
            made.call("Linear", [part], [out], path="", kind="module")
            made.loss(1.0)
        add_update(made, {"lr": 1e-3}, gradient=spoiled, value=spoiled)
        return made

    comparison = compare(run(16), run(size))
    assert comparison.status == "agree", comparison.headline
    assert compare(run(16), run(size, 1 + 1e-6)).status == "agree"
    assert ("JM315" in codes(comparison)) == (size != 16)
    assert comparison.num_operators["agree"] == (2 if size != 16 else 3)
    first = compare(run(16), run(size, 1.5)).first_divergence
    assert first is not None
    assert (first.phase, first.module_path) == ("optimizer", "layers.0")


@pytest.mark.parametrize("divided", [True, False])
def test_losses_of_other_numbers_of_micro_steps_are_brought_to_one_scale(divided) -> None:
    factor = 0.5 if divided else 1.0
    target = [(0, 2.0 * factor), (1, 1.5 * factor)]
    assert losses_alike([(0, 2.0), (1, 1.5)], target, (1, 2)) == [(0, 2.0), (1, 1.5)]
    assert losses_alike([(0, 2.0)], target, (1, 1)) == target


# Data


def batch(run: Run, rows: np.ndarray, *, step: int = 0, weight: np.ndarray | None = None) -> Run:
    weight = np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32) if weight is None else weight
    run.call("aten::mm", [rows, weight], [rows @ weight], step=step, path="fc")
    return run


def samples(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((16, 8)).astype(np.float32)


def test_the_same_rows_in_another_order_are_recognised_in_whole_tensors() -> None:
    order = np.random.default_rng(1).permutation(16)
    comparison = compare(batch(Run(values="tensors"), samples()), batch(Run(values="tensors"), samples()[order]))
    message = finding(comparison, "JM302").message
    assert f"the same rows in another order ({int((order != np.arange(16)).sum())} of 16 moved)" in message


def test_the_same_elements_in_another_order_are_recognised_in_sketches() -> None:
    comparison = compare(batch(Sketched(), samples()), batch(Sketched(), samples()[::-1].copy()))
    assert "the same elements in another order" in finding(comparison, "JM302").message


def test_a_batch_of_another_step_is_found() -> None:
    reference, target = Run(), Run()
    for step, other in enumerate([2, 0, 1]):
        batch(reference, samples(step), step=step)
        batch(target, samples(other), step=step)
    comparison = compare(reference, target)
    assert "the reference's batch of step 0 is the target's of step 1" in finding(comparison, "JM302").message


def test_other_data_that_are_not_related_are_not_said_to_be() -> None:
    comparison = compare(batch(Sketched(), samples(0)), batch(Sketched(), samples(1)))
    assert "other data or seed" in finding(comparison, "JM302").message


# Parameters


@pytest.mark.parametrize("values", ["tensors", "sketch"])
def test_a_square_weight_that_is_transposed_is_said_to_be(values) -> None:
    weight = np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32)

    def run(weight: np.ndarray) -> Run:
        made = Sketched() if values == "sketch" else Run(values="tensors")
        made.call("aten::relu", [samples()], [samples()], path="a")
        return batch(made, samples(), weight=weight)

    comparison = compare(run(weight), run(weight.T.copy()))
    message = finding(comparison, "JM303").message
    assert ("transposed" if values == "tensors" else "the same elements in another order") in message


def test_a_weight_of_transposed_shape_is_named() -> None:
    weight = np.random.default_rng(3).standard_normal((8, 4)).astype(np.float32)

    def run(read: np.ndarray) -> Run:
        made = Run()
        x = samples()
        made.call("aten::matmul", [x, read], [x @ weight], path="fc")
        return made

    comparison = compare(run(weight), run(weight.T.copy()))
    assert "fc ([8, 4] against [4, 8])" in finding(comparison, "JM303").message


# Random numbers


class WithGenerators(Run):
    """A run that knows its generators' states."""

    def __init__(self, state: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.state = state

    def step_info(self, step: int, rank: int = 0) -> StepInfo:
        del step, rank
        return StepInfo(rng={"cpu": self.state})


def test_generators_in_another_state_are_named_as_the_cause_of_other_data() -> None:
    comparison = compare(batch(WithGenerators("aa"), samples(0)), batch(WithGenerators("bb"), samples(1)))
    assert "the generators cpu were in another state" in finding(comparison, "JM302").message


@pytest.mark.parametrize(
    ("states", "words"), [(("a", "b"), "drawn from more often"), (("a", "a"), "different generators")]
)
def test_other_random_numbers_tell_the_state_from_the_generator(states, words) -> None:
    def run(seed: int, state: str) -> Run:
        made = Run()
        x = samples()
        mask = np.random.default_rng(seed).random((16, 8)) < 0.8
        made.call("aten::native_dropout", [x], [x * mask, mask], path="drop")
        rows = made._rows[0, 0]
        rows[-1] = replace(rows[-1], rng=state)
        return made

    comparison = compare(run(0, states[0]), run(1, states[1]))
    assert words in finding(comparison, "JM307").message


def test_numbers_of_another_dtype_are_named_as_such() -> None:
    """A rejection sampler draws float64 on one device and float32 on another; the generators are the same."""

    def run(seed: int, dtype: str) -> Run:
        made = Run()
        drawn = np.random.default_rng(seed).random((16, 8))
        made.call("aten::mul.Tensor", [samples(), made.call("aten::rand", [], [drawn.astype(dtype)])], [drawn])
        return made

    message = finding(compare(run(0, "float64"), run(1, "float32")), "JM307").message
    assert "draws float64 in the reference and float32 in the target" in message
    assert "different generators" not in message


# Optimizers


def trained(
    settings: Mapping[str, Any], *, gradient: float = 1.0, value: float = 1.0, name: str = "AdamW", rank: int = 0
) -> Run:
    run = mlp(Run())
    add_update(run, settings, gradient=gradient, value=value, name=name, rank=rank)
    return run


def add_update(
    run: Run,
    settings: Mapping[str, Any],
    *,
    gradient: float = 1.0,
    value: float = 1.0,
    name: str = "AdamW",
    rank: int = 0,
) -> None:
    """Add the rows of one optimizer step over two parameters; factors spoil the second one."""
    rows = run._rows.setdefault((0, rank), [])
    rng = np.random.default_rng(11)
    base: dict[str, Any] = {"step": 0, "rank": rank, "phase": "optimizer", "occurrence": 0}
    for parameter, spoiled in (("weight", 1.0), ("bias", gradient)):
        grad, after = rng.standard_normal((2, 4, 4)).astype(np.float32)
        factor = value if parameter == "bias" else 1.0
        rows.append(
            CallRow(
                **base,
                seq=len(rows),
                kind="parameter",
                module_path="layers.0",
                module_type="Linear",
                name=parameter,
                inputs=(tensor_row("input.grad", grad * np.float32(spoiled), 900),),
                outputs=(tensor_row("output.0", after * np.float32(factor), 901),),
            )
        )
    rows.append(
        CallRow(
            **base,
            seq=len(rows),
            kind="optimizer",
            module_path="",
            module_type="",
            name=name,
            source="train.py:7",
            arguments=json.dumps({name: [value] for name, value in settings.items()}),
        )
    )


def test_hyperparameters_that_differ_are_named_with_both_values() -> None:
    comparison = compare(trained({"lr": 1e-3, "eps": 1e-8}), trained({"lr": 1e-3, "eps": 1e-6}))
    found = finding(comparison, "JM313")
    assert "AdamW has different settings from step 0 on: eps 1e-08 against 1e-06" in found.message
    assert (found.where.path, found.where.line) == ("train.py", 7)


def test_another_optimizer_is_named() -> None:
    comparison = compare(trained({"lr": 1e-3}), trained({"lr": 1e-3}, name="SGD"))
    assert "class 'AdamW' against 'SGD'" in finding(comparison, "JM313").message


def test_equal_optimizers_are_no_finding() -> None:
    assert "JM313" not in codes(compare(trained({"lr": 1e-3}), trained({"lr": 1e-3})))


# Ranks


def ranks(
    *, gradient: float = 1.0, value: float = 1.0, equal_data: bool = False, collectives: Sequence[int] = (1, 1)
) -> Run:
    run = Run()
    for rank in (0, 1):
        rows = samples(0 if equal_data else rank)
        weight = np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32)
        run.call("aten::mm", [rows, weight], [rows @ weight], rank=rank, path="fc")
        for _ in range(collectives[rank]):
            run.call("c10d::allreduce_", [samples(5)], [samples(5)], rank=rank, path="", phase="backward")
        add_update(run, {"lr": 0.1}, gradient=gradient if rank else 1.0, value=value if rank else 1.0, rank=rank)
    return run


def of_one(run: Run) -> Comparison:
    return compare(run, run, options=CompareOptions(rank_pairs=((0, 1),)))


def test_ranks_that_hold_the_same_agree() -> None:
    comparison = of_one(ranks())
    assert (comparison.status, comparison.findings) == ("agree", ())
    assert comparison.headline.startswith("The ranks agree")


def test_a_gradient_left_out_of_the_aggregation_is_named() -> None:
    comparison = of_one(ranks(gradient=1.5))
    found = finding(comparison, "JM314")
    assert comparison.status == "diverge"
    assert "1 of 2 tensors differ between ranks 0 and 1 in step 0" in found.message
    assert "layers.0.bias; they were left out of the aggregation" in found.message
    without = finding(of_one(ranks(gradient=1.5, collectives=(0, 0))), "JM314")
    assert "no all-reduce was run in this step" in without.message


def test_parameters_that_part_after_equal_gradients_are_named() -> None:
    found = finding(of_one(ranks(value=1.5)), "JM314")
    assert found.message.startswith("Parameters: 1 of 2 tensors")


def test_equal_data_on_two_ranks_are_a_warning() -> None:
    comparison = of_one(ranks(equal_data=True))
    assert comparison.status == "agree"
    assert [(f.code, f.severity) for f in comparison.findings] == [("JM314", Severity.WARNING)]


def test_a_collective_that_one_rank_skips_is_named() -> None:
    comparison = of_one(ranks(collectives=(2, 1)))
    assert "c10d::allreduce_" in finding(comparison, "JM314").message


def test_two_recordings_are_told_apart_by_what_only_the_target_s_ranks_do_not_share() -> None:
    assert "JM314" in codes(compare(ranks(), ranks(gradient=1.5)))
    assert "JM314" not in codes(compare(ranks(gradient=1.5), ranks(gradient=1.5)))


def test_one_rank_is_compared_with_another_of_another_recording() -> None:
    other = Run()
    other.path = other.path / "other"
    rows = samples(1)
    weight = np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32)
    other.call("aten::mm", [rows, weight], [rows @ weight], path="fc")
    comparison = compare(ranks(), other, options=CompareOptions(rank_pairs=((1, 0),)))
    assert comparison.num_operators["agree"] == 1
