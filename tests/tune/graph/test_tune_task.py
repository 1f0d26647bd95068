"""A task's key depends on what decides the computation, and on nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tune_builders import call, mm_task, spec, tensor

from jumar.tune.graph.operators import task_of
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Task, contiguous_stride, digest
from jumar.tune.search.tasks.extract import reason_not_tuned

shapes = st.lists(st.integers(0, 9), max_size=5).map(tuple)


@given(shapes, st.sampled_from(["float32", "bfloat16", "int64"]), st.floats(-5, 5))
def test_a_task_survives_json_with_its_key(shape, dtype, mean):
    task = Task(
        operator="aten::gelu",
        tensors={"self": spec(*shape, dtype=dtype, mean=mean, rms=abs(mean))},
        arguments={"approximate": "none", "list": [1, 2], "nothing": None},
    )
    again = Task.from_json(task.to_json())
    assert again == task
    assert again.key == task.key
    assert again.tensors["self"].mean == mean


def test_the_scale_of_the_values_is_no_part_of_the_key():
    task = mm_task()
    scaled = replace(task, tensors={**task.tensors, "self": replace(task.tensors["self"], mean=3.0, rms=4.0)})
    assert scaled.key == task.key


def test_shape_dtype_stride_arguments_and_operator_are_part_of_the_key():
    task = mm_task()
    first = task.tensors["self"]
    others = [
        replace(task, operator="aten::bmm"),
        replace(task, arguments={"alpha": 2}),
        *(
            replace(task, tensors={**task.tensors, "self": replace(first, **change)})
            for change in ({"shape": (5, 8)}, {"dtype": "float64"}, {"stride": (1, 4)})
        ),
    ]
    assert len({task.key, *(other.key for other in others)}) == 1 + len(others)


def test_keys_do_not_change_between_versions_of_jumar():
    assert mm_task().key == "66dfa9c1f2a6aee51a0fc1b549c7112483b93823c5d568f75a507bcf2cb8f05e"
    assert digest({"b": 1, "a": [None, 2.5]}) == digest({"a": [None, 2.5], "b": 1})


@pytest.mark.parametrize(("shape", "stride"), [((), ()), ((3,), (1,)), ((2, 3, 4), (12, 4, 1)), ((2, 0, 3), (3, 3, 1))])
def test_contiguous_strides_are_those_of_pytorch(shape, stride):
    import torch

    assert contiguous_stride(shape) == stride == torch.empty(shape).stride()


def test_a_recorded_call_and_one_with_its_defaults_written_out_are_one_task():
    image = [tensor("input.0", 1, 3, 8, 8)]
    short = task_of(call("aten::max_pool2d_with_indices", image, {"kernel_size": 2}))
    long = task_of(
        call(
            "aten::max_pool2d_with_indices", image,
            {"kernel_size": [2, 2], "stride": [], "padding": [0, 0], "dilation": [1, 1], "ceil_mode": False},
        )
    )  # fmt: skip
    assert short == long
    assert short.arguments["kernel_size"] == [2, 2]


def test_tensors_are_named_by_the_schema_also_where_an_optional_one_is_left_out():
    row = call(
        "aten::native_layer_norm",
        [tensor("input.0", 4, 8), tensor("input.2", 8), tensor("input.3", 8)],
        {"normalized_shape": [8], "eps": 1e-5},
    )
    assert list(task_of(row).tensors) == ["input", "weight", "bias"]
    bare = task_of(call("aten::native_layer_norm", [tensor("input.0", 4, 8)], {"normalized_shape": [8], "eps": 1e-5}))
    assert (list(bare.tensors), bare.arguments["weight"]) == (["input"], None)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (call("aten::no_such_operator", []), "not an operator of PyTorch"),
        (call("aten::cat", [tensor("input.0.0", 2), tensor("input.0.1", 2)]), "list of tensors"),
        (call("aten::gelu", [tensor("input.0", 2, stride=(), format="SPARSE_COO")]), "SPARSE_COO tensor"),
        (call("aten::view", [tensor("input.0", 2)]), "without its argument size"),
    ],
)
def test_a_call_that_cannot_be_rebuilt_is_one_sentence(row, said):
    with pytest.raises(TuneError, match=said):
        task_of(row)


def test_only_pure_compute_operators_are_tuned():
    assert reason_not_tuned("aten::convolution", {}) == ""
    assert "random numbers" in reason_not_tuned("aten::scaled_dot_product_attention", {"dropout_p": 0.1})
    for operator in ("aten::add_.Tensor", "aten::native_batch_norm", "torchvision::mm", "aten::bernoulli"):
        assert "not among the operators" in reason_not_tuned(operator, {})
