from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recording_builder import Array, Run, mlp

from jumar.comparison import CompareOptions, compare
from jumar.comparison.diagnosis import Diagnosis, diagnose, write_suspects
from jumar.comparison.diagnosis.second_pass import second_pass
from jumar.recording import TensorRow

Change = Callable[[Array], Array]


def same(array: Array) -> Array:
    return array


def train(
    run: Run,
    *,
    steps: int = 3,
    forward: Change = same,
    backward: Change = same,
    update: Change = same,
    from_step: int = 0,
    rank: int = 0,
    **mlp_options: Any,
) -> Run:
    """Record steps of a network with a backward operator and one parameter, whose gradient and value are kept."""
    for step in range(steps):
        late = step >= from_step
        mlp(run, step=step, wrong={"layers.1": forward if late else same}, **mlp_options)
        draw = np.random.default_rng(100 + step)
        incoming = draw.standard_normal((32, 16)).astype(np.float32)
        weight = draw.standard_normal((16, 32)).astype(np.float32)
        product = incoming @ weight
        gradient = run.call(
            "aten::mm",
            [incoming, weight],
            [(backward if late else same)(product).astype(np.float32)],
            path="layers.3",
            phase="backward",
            step=step,
            source="model.py:7",
        )
        value = (weight[:1] * np.float32(0.9)).repeat(32, 0)
        kept = (update if late else same)(value).astype(np.float32)
        run.call("weight", [gradient], [kept], path="layers.3", phase="optimizer", kind="parameter", step=step)
        rows = run.rows(step, rank)
        rows[-1] = replace(rows[-1], inputs=(named(rows[-1].inputs[0], "input.grad"),))
    return run


def named(tensor: TensorRow, name: str) -> TensorRow:
    return replace(tensor, name=name)


def diagnosed(reference: Run, target: Run, **options: Any) -> Diagnosis:
    chosen = CompareOptions(**options)
    return diagnose(compare(reference, target, options=chosen), reference, target, chosen)


def scaled(array: Array) -> Array:
    return array * np.float32(1.05)


def with_nan(array: Array) -> Array:
    array = array.copy()
    array[2, 3] = np.nan
    return array


CAUSES = {
    "none": {},
    "forward": {"forward": scaled},
    "backward": {"backward": scaled},
    "nonfinite": {"forward": with_nan},
    "data": {"data_seed": 5},
}


@pytest.mark.parametrize("cause", CAUSES)
def test_the_flow_ends_at_the_cause(cause: str) -> None:
    found = diagnosed(train(Run()), train(Run(), **CAUSES[cause]))
    assert found.cause == cause
    assert [answer.cause for answer in found.path[:-1]] == [None] * (len(found.path) - 1)
    assert found.path[-1].cause == cause


def test_other_parameters_end_the_search() -> None:
    reference, target = Run(), Run()
    data = np.random.default_rng(0).standard_normal((8, 32)).astype(np.float32)
    for seed, run in enumerate((reference, target)):
        weight = np.random.default_rng(seed).standard_normal((16, 32)).astype(np.float32)
        run.call("aten::linear", [data, weight], [data @ weight.T])
        run.loss(1.0)
    assert diagnosed(reference, target).cause == "parameters"


def test_a_later_step_is_named_when_the_first_agrees() -> None:
    found = diagnosed(train(Run()), train(Run(), backward=scaled, from_step=2))
    assert found.cause == "backward"
    assert "step 2" in found.conclusion
    losses = next(answer for answer in found.path if "first common step" in answer.question)
    assert losses.state == "fine"


def test_nothing_in_common_claims_nothing() -> None:
    found = diagnosed(train(Run(), steps=1), mlp(Run(), step=9))
    assert (found.cause, len(found.path)) == ("not compared", 1)


def test_settings_that_differ_are_noted_and_the_search_goes_on() -> None:
    settings = ({"deterministic_algorithms": True}, {"deterministic_algorithms": False})
    reference, target = (Run(settings=one) for one in settings)
    found = diagnosed(train(reference), train(target, forward=scaled))
    assert next(answer for answer in found.path if "settings" in answer.question).state == "attention"
    assert found.cause == "forward"


def test_losses_that_part_without_an_operator_were_not_recorded() -> None:
    reference, target = train(Run()), train(Run())
    for row_list in target._rows.values():
        for index, row in enumerate(row_list):
            if row.kind == "loss":
                output = row.outputs[0]
                row_list[index] = replace(row, outputs=(replace(output, mean=(output.mean or 0) * 2),))
    found = diagnosed(reference, target)
    assert found.cause == "not recorded"


def test_the_curves_hold_the_norm_of_all_gradients_and_how_far_they_are_apart() -> None:
    found = diagnosed(train(Run()), train(Run(), backward=scaled))
    first = found.curves[0]
    assert (first.step, first.num_parameters) == (0, 1)
    assert first.target_norm == pytest.approx(1.05 * (first.reference_norm or 0), rel=1e-5)
    assert first.gradient_error == pytest.approx(0.05, rel=0.2)
    assert first.parameter_error == 0.0
    assert first.worst_gradient == "layers.3.weight"


def test_a_run_without_parameter_rows_has_no_curves() -> None:
    assert diagnosed(mlp(Run()), mlp(Run())).curves == ()


@pytest.mark.parametrize(("values", "seen"), [("tensors", "tensors"), ("stats", "statistics")])
def test_what_the_difference_looks_like_is_a_finding(values: str, seen: str) -> None:
    found = diagnosed(train(Run(values=values)), train(Run(values=values), forward=scaled))
    (best, *_) = found.suspicions
    assert (best.hypothesis.kind, best.seen_in, best.module_path) == ("scale", seen, "layers.1")
    (finding, *_) = [finding for finding in found.findings if finding.code == "JM341"]
    assert "1.05 times the reference" in finding.message
    assert finding.where.module_path == "layers.1"


def test_arguments_that_differ_come_before_every_shape() -> None:
    reference, target = Run(values="tensors"), Run(values="tensors")
    data = np.random.default_rng(0).standard_normal((8, 32)).astype(np.float32)
    for run, slope in ((reference, 0.01), (target, 0.02)):
        run.call("aten::leaky_relu", [data], [np.where(data > 0, data, slope * data)], arguments={"slope": slope})
        run.loss(1.0)
    found = diagnosed(reference, target)
    assert found.suspicions[0].hypothesis.kind == "arguments"


def test_an_operator_that_one_run_alone_has_is_described_by_what_it_does() -> None:
    reference, target = Run(values="tensors"), Run(values="tensors")
    data = np.random.default_rng(0).standard_normal((8, 32)).astype(np.float32)
    weight = np.random.default_rng(1).standard_normal((32, 32)).astype(np.float32)
    for run in (reference, target):
        hidden = run.call("aten::relu", [data], [np.maximum(data, 0)])
        if run is target:
            hidden = run.call("aten::flip", [hidden], [np.flip(hidden, 1).copy()])
        run.call("aten::mm", [hidden, weight], [hidden @ weight])
        run.loss(1.0)
    found = diagnosed(reference, target)
    assert "Only the target runs this: its result is its input flipped along dimension 1" in str(found.suspicions)


def test_the_path_is_a_finding_only_where_something_differs() -> None:
    codes = [finding.code for finding in diagnosed(train(Run()), train(Run(), backward=scaled)).findings]
    assert codes[0] == "JM340"
    assert diagnosed(train(Run()), train(Run())).findings == ()


def test_the_suspects_are_the_divergence_what_it_reads_and_its_neighbours() -> None:
    found = diagnosed(train(Run()), train(Run(), forward=scaled))
    roles = {suspect.key: suspect.role for suspect in found.suspects}
    assert roles["op/forward/layers.1/aten::mm/0"] == "first divergence"
    assert roles["op/forward/layers.0/aten::relu/0"] == "producer"
    assert roles["op/forward/layers.1/aten::relu/0"] == "neighbour"
    assert len(found.suspects) == len(set(found.suspects))


def test_the_file_of_suspects_is_a_list_of_keys_with_their_step(tmp_path: Path) -> None:
    found = diagnosed(train(Run()), train(Run(), forward=scaled, from_step=1))
    path = tmp_path / "suspects.json"
    write_suspects(path, found.suspects)
    keys = json.loads(path.read_text("utf-8"))
    assert keys[0] == "1:op/forward/layers.1/aten::mm/0"
    assert len(keys) == len(found.suspects)


def test_the_commands_quote_what_a_shell_would_take_apart() -> None:
    reference, target = train(Run()), train(Run(device="npu (emulated)"), forward=scaled)
    for run in (reference, target):
        run.path = Path("a recording")
        run.info = replace(run.info, command=("my train.py", "--name", "x y"))
    comparison = compare(reference, target)
    found = diagnose(comparison, reference, target)
    second = second_pass(comparison.reference, comparison.target, found.suspects)
    assert second is not None
    assert second.target == (
        "jumar record -o 'a recording-tensors' --device npu --steps 0:1 "
        "--tensors-of 0:op/forward/layers.1/aten::mm/0 'my train.py' --name 'x y'"
    )


def test_without_the_scripts_command_there_is_no_second_pass() -> None:
    reference, target = train(Run()), train(Run(), forward=scaled)
    comparison = compare(reference, target)
    found = diagnose(comparison, reference, target)
    assert second_pass(comparison.reference, comparison.target, found.suspects) is None


def test_steps_that_are_shifted_are_read_at_their_own_number() -> None:
    reference, target = Run(), Run()
    for step in range(4):
        mlp(reference, step=step, data_seed=step + 20)
        mlp(target, step=step + 2, data_seed=step + 20, wrong={"layers.1": scaled if step == 3 else same})
    found = diagnosed(reference, target, offset=2)
    assert {(one.step, one.role) for one in found.suspects if one.role == "first divergence"} == {
        (3, "first divergence"),
        (5, "first divergence"),
    }


def test_a_diagnosis_is_plain_json() -> None:
    found = diagnosed(train(Run()), train(Run(), forward=with_nan))
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["cause"] == "nonfinite"
