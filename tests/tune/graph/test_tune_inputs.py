"""Random inputs have the recorded shapes, strides, dtypes and scale, and equal seeds give equal inputs."""

from __future__ import annotations

import pytest
import torch
from tune_builders import mm_task, spec

from jumar.tune.graph.inputs import make_inputs, refill
from jumar.tune.graph.operators import function_of
from jumar.tune.measure.worker.reference import widened_tensor
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Task


def one(tensor_spec) -> torch.Tensor:
    return make_inputs(Task(operator="aten::gelu", tensors={"self": tensor_spec}, arguments={}), 0)[0]


@pytest.mark.parametrize(
    ("shape", "stride"),
    [((), ()), ((4, 8), (8, 1)), ((8, 4), (1, 8)), ((2, 3, 4), (0, 1, 3)), ((3, 0), (1, 1)), ((2, 3), (10, 2))],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_shape_stride_and_dtype_are_the_recorded_ones(shape, stride, dtype):
    tensor = one(spec(*shape, dtype=dtype, stride=stride))
    assert (tuple(tensor.shape), tensor.stride(), tensor.dtype) == (shape, stride, getattr(torch, dtype))


def test_values_have_the_recorded_mean_and_spread():
    tensor = one(spec(200, 200, mean=3.0, rms=5.0))
    assert tensor.mean().item() == pytest.approx(3.0, abs=0.1)
    assert tensor.std().item() == pytest.approx(4.0, rel=0.05)


def test_a_constant_tensor_gets_a_spread_so_that_ignoring_it_shows():
    assert one(spec(100, mean=0.0, rms=0.0)).std() > 0.5
    assert one(spec(100, mean=2.0, rms=2.0)).std() > 0.5


def test_integers_stay_within_the_recorded_range():
    tensor = one(spec(1000, dtype="int64", minimum=3, maximum=7))
    assert (int(tensor.min()), int(tensor.max())) == (3, 7)


def test_equal_seeds_give_equal_inputs_and_others_do_not():
    task = mm_task()
    first, again, other = (make_inputs(task, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_refilling_keeps_memory_and_gives_the_other_seeds_values():
    task = Task(
        operator="aten::add.Tensor", tensors={"self": spec(4, 3, stride=(0, 1)), "other": spec(3)}, arguments={}
    )
    tensors = make_inputs(task, 1)
    places = [tensor.data_ptr() for tensor in tensors]
    refill(tensors, task, 2)
    assert [tensor.data_ptr() for tensor in tensors] == places
    assert all(map(torch.equal, tensors, make_inputs(task, 2)))


def test_widening_keeps_values_and_leaves_integers():
    wide, whole = (widened_tensor(tensor, torch.float64) for tensor in (torch.tensor([0.1]), torch.tensor([3])))
    assert (wide.dtype, whole.dtype) == (torch.float64, torch.int64)
    assert wide.item() == torch.tensor(0.1).item()


@pytest.mark.parametrize("dtype", ["complex64", "quint8_of_the_future"])
def test_a_dtype_without_random_values_is_one_sentence(dtype):
    with pytest.raises(TuneError, match=dtype):
        one(spec(2, dtype=dtype))


def test_the_function_of_a_task_is_the_operator_with_its_arguments():
    task = Task(
        operator="aten::sum.dim_IntList",
        tensors={"self": spec(3, 4)},
        arguments={"dim": [1], "keepdim": True, "dtype": "float64"},
    )
    tensor = make_inputs(task, 0)[0]
    answer = function_of(task)(tensor)
    assert answer.dtype is torch.float64
    assert torch.equal(answer, tensor.sum(1, keepdim=True, dtype=torch.float64))


def test_keyword_tensors_and_text_arguments_reach_the_operator():
    attention = Task(
        operator="aten::_scaled_dot_product_flash_attention_for_cpu",
        tensors={name: spec(1, 2, 4, 8) for name in ("query", "key", "value")} | {"attn_mask": spec(4, 4)},
        arguments={"dropout_p": 0.0, "is_causal": False, "scale": None},
    )
    query, key, value, mask = tensors = make_inputs(attention, 0)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask)
    assert torch.allclose(function_of(attention)(*tensors)[0], expected, atol=1e-6)
    gelu = Task(operator="aten::gelu", tensors={"self": spec(9)}, arguments={"approximate": "tanh"})
    (tensor,) = make_inputs(gelu, 0)
    assert torch.equal(function_of(gelu)(tensor), torch.nn.functional.gelu(tensor, approximate="tanh"))
