"""A recorded inference tells its weights from its inputs; a recorded training has none."""

from __future__ import annotations

import pytest
from tune_builders import call, tensor, write_recording

from jumar.recording import CallRow, Recording
from jumar.tune.search.tasks.extract import extract, weights_of

WEIGHT, INPUT, OUTPUT, LATER = 1, 2, 3, 4


def linear(
    *, weight: int = WEIGHT, given: int = INPUT, made: int = OUTPUT, module: str = "fc", **fields
) -> list[CallRow]:
    """The rows of one Linear: its weight turned (a view), the product, the module's call."""
    outputs = (tensor("output.0", 4, 4, storage=made),)
    turned = tensor("output.0", 8, 4, storage=weight, stride=(1, 8), contiguous=False)
    return [
        call("aten::t", [tensor("input.0", 4, 8, storage=weight)], module=module, outputs=(turned,), **fields),
        call(
            "aten::mm", [tensor("input.0", 4, 8, storage=given), tensor("input.1", 8, 4, storage=weight)],
            module=module, outputs=outputs, **fields,
        ),
        call(
            "Linear", [tensor("input.0", 4, 8, storage=given)], module=module, outputs=outputs, kind="module", **fields
        ),
    ]  # fmt: skip


def opened(tmp_path, *steps: list[CallRow], **info) -> Recording:
    return Recording.open(write_recording(tmp_path / "recording", steps, **({"levels": ("module", "op")} | info)))


def constants(recording: Recording) -> list[dict[str, bool]]:
    return [{name: spec.constant for name, spec in use.task.tensors.items()} for use in extract(recording).tasks]


def test_a_weight_is_what_comes_with_the_model_also_seen_through_a_view(tmp_path):
    recording = opened(tmp_path, linear(), linear())
    assert weights_of(recording, 0) == {(0, WEIGHT), (1, WEIGHT)}
    assert constants(recording) == [{"self": False, "mat2": True}]


def test_what_a_module_computed_or_was_called_with_is_no_weight(tmp_path):
    recording = opened(tmp_path, [*linear(), *linear(weight=OUTPUT, given=WEIGHT, made=LATER, module="two")])
    assert weights_of(recording, 0) == frozenset()


def test_a_weight_made_by_the_script_in_the_same_step_is_one_all_the_same(tmp_path):
    made = call(
        "aten::uniform_", [tensor("input.0", 4, 8, storage=WEIGHT)], outputs=(tensor("output.0", 4, 8, storage=WEIGHT),)
    )
    assert (0, WEIGHT) in weights_of(opened(tmp_path, [made, *linear()]), 0)


def test_what_a_module_writes_to_in_place_is_no_weight(tmp_path):
    state = tensor("input.0", 4, 8, storage=WEIGHT)
    written = call("aten::add_.Tensor", [state], module="fc", outputs=(tensor("output.0", 4, 8, storage=WEIGHT),))
    assert weights_of(opened(tmp_path, [written, *linear()]), 0) == frozenset()


@pytest.mark.parametrize("fields", [{"phase": "backward"}, {"kind": "optimizer", "phase": "optimizer"}])
def test_a_model_that_is_trained_has_no_constant_weights(tmp_path, fields):
    trained = call("aten::mm", [tensor("input.0", 4, 8), tensor("input.1", 8, 4)], **fields)
    assert weights_of(opened(tmp_path, [*linear(), trained]), 0) == frozenset()


def test_without_rows_of_modules_nothing_is_told(tmp_path):
    rows = [row for row in linear() if row.kind == "op"]
    assert weights_of(opened(tmp_path, rows), 0) == frozenset()
    (tmp_path / "other").mkdir()
    assert weights_of(opened(tmp_path / "other", linear(), levels=("op",)), 0) == frozenset()
