"""A recording becomes distinct tasks, counted, the longest first; what is left out is named with its reason."""

from __future__ import annotations

from tune_builders import call, mm_row, pool_row, tensor, write_recording

from jumar.recording import Recording
from jumar.tune.search.tasks.extract import extract


def extraction(path, steps):
    return extract(Recording.open(write_recording(path / "recording", steps)))


def test_equal_calls_are_one_task_with_its_calls_and_modules(tmp_path):
    step = [mm_row(4, "a"), mm_row(4, "b"), mm_row(5, "a", duration_us=500.0), mm_row(4, "a", phase="backward")]
    found = extraction(tmp_path, [step, step])
    assert [(use.name, use.num_calls) for use in found.tasks] == [("a/mm_OPAT_0", 2), ("a/mm_OPAT_1", 6)]
    assert found.tasks[1].module_paths == ["a", "b"]
    assert found.tasks[1].phases == ["forward", "backward"]
    assert (found.num_calls, found.not_tuned) == (8, [])


def test_other_strides_are_another_task(tmp_path):
    turned = call("aten::mm", [tensor("input.0", 4, 8, stride=(1, 4), contiguous=False), tensor("input.1", 8, 4)])
    assert len(extraction(tmp_path, [[mm_row(4), turned]]).tasks) == 2


def test_the_scale_of_the_first_call_is_kept_for_the_inputs(tmp_path):
    row = call("aten::gelu", [tensor("input.0", 100, mean=3.0, l2=50.0)])
    spec = extraction(tmp_path, [[row]]).tasks[0].task.tensors["self"]
    assert (spec.mean, spec.rms) == (3.0, 5.0)


def test_modules_and_losses_are_no_tasks_and_other_operators_are_listed(tmp_path):
    rows = [
        call("Linear", [], kind="module", module="fc"),
        call("aten::relu", [tensor("input.0", 4)], duration_us=7.0),
        call("aten::relu", [tensor("input.0", 9)], duration_us=5.0),
        call("aten::scaled_dot_product_attention", [tensor(f"input.{i}", 1, 2, 3, 4) for i in range(3)],
             {"dropout_p": 0.5}),
        pool_row(),
    ]  # fmt: skip
    found = extraction(tmp_path, [rows])
    assert [use.name for use in found.tasks] == ["pool/avg_pool2d_OPAT_0"]
    by_operator = {one.operator: (one.num_calls, one.recorded_us) for one in found.not_tuned}
    assert by_operator == {"aten::relu": (2, 12.0), "aten::scaled_dot_product_attention": (1, 10.0)}
    assert "random numbers" in found.not_tuned[1].reason


def test_a_module_without_a_name_is_the_model(tmp_path):
    assert extraction(tmp_path, [[mm_row(4, "")]]).tasks[0].name == "model/mm_OPAT_0"
