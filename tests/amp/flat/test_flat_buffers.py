"""`FlatBuffers`: parameters and gradients stay views of the buffers, whatever a program does with them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from jumar.amp.flat import FlatBuffers
from jumar.amp.flat.layout import ALIGNMENT_BYTES, LARGE
from jumar.amp.flat.optimizers.of_torch import SGD
from jumar.base.errors import InputError

SHAPES = st.sampled_from([(), (0,), (1,), (7,), (3, 5), (4, 3, 2, 2), (2, 0, 3), (LARGE + 1,)])
DTYPES = st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16])


def make(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


def lies_in(tensor: Any, flats: list[torch.Tensor]) -> bool:
    return any(
        flat.data_ptr() <= tensor.data_ptr() < flat.data_ptr() + flat.nbytes and flat.dtype == tensor.dtype
        for flat in flats
    )


@settings(max_examples=60)
@given(st.lists(st.tuples(SHAPES, DTYPES), min_size=1, max_size=8), st.data())
def test_views_show_the_values_and_gradients_of_any_parameters(model, data):
    parameters = [torch.randn(shape).to(dtype).requires_grad_() for shape, dtype in model]
    values = [parameter.detach().clone() for parameter in parameters]
    buffers = FlatBuffers(parameters)
    assert all(torch.equal(one, other) for one, other in zip(parameters, values, strict=True))
    for _ in range(2):
        given_ = [data.draw(st.booleans()) for _ in parameters]
        gradients = [torch.randn(value.shape).to(value.dtype) for value in values]
        for parameter, gradient, there in zip(parameters, gradients, given_, strict=True):
            parameter.grad = gradient.clone() if there else None
        flats = buffers.gradients()
        assert buffers.present() == given_
        for parameter, gradient, there in zip(parameters, gradients, given_, strict=True):
            if there:
                assert torch.equal(parameter.grad, gradient)
                assert parameter.grad.numel() == 0 or lies_in(parameter.grad, flats)
        total = sum(
            gradient.double().square().sum() for gradient, there in zip(gradients, given_, strict=True) if there
        )
        found = sum((flat.double().square().sum() for flat in flats), torch.zeros((), dtype=torch.float64))
        torch.testing.assert_close(found, torch.as_tensor(total, dtype=torch.float64))
    buffers.release()
    assert all(torch.equal(one, other) for one, other in zip(parameters, values, strict=True))
    assert not any(lies_in(one, flats) for one in parameters if one.numel())


def test_small_parameters_come_first_and_each_starts_at_a_multiple_of_64_bytes():
    parameters = make((LARGE,), (3,), (LARGE + 5,), (5,))
    FlatBuffers(parameters)
    places = [parameter.data_ptr() for parameter in parameters]
    assert sorted(range(4), key=places.__getitem__) == [1, 3, 0, 2]
    assert {(place - min(places)) % ALIGNMENT_BYTES for place in places} == {0}


def test_no_gradients_give_no_flat_gradient():
    buffers = FlatBuffers(make((3,), (4,)))
    assert buffers.gradients() == []


def test_what_is_written_into_the_flat_gradient_is_in_the_parameters():
    parameters = make((3,), (2, 2))
    buffers = FlatBuffers(parameters)
    sum(parameter.sum() for parameter in parameters).backward()
    for flat in buffers.gradients():
        flat.mul_(5)
    assert [parameter.grad.unique().tolist() for parameter in parameters] == [[5.0], [5.0]]


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("size", [4, LARGE])
def test_a_cleared_gradient_counts_as_torch_says(set_to_none, size):
    parameter, other = make((size,), (3,))
    buffers = FlatBuffers([parameter, other])
    (parameter.sum() + other.sum()).backward()
    buffers.gradients()
    buffers.zero_grad(set_to_none=set_to_none)
    assert buffers.present() == [not set_to_none] * 2
    other.sum().backward()
    (flat,) = buffers.gradients()
    assert buffers.present() == [not set_to_none, True]
    assert flat.sum() == 3
    assert other.grad.tolist() == [1, 1, 1]


def test_gradients_are_summed_over_backward_passes():
    parameters = make((4,), (LARGE,))
    buffers = FlatBuffers(parameters)
    for count in (1, 2, 3):
        sum(parameter.sum() for parameter in parameters).backward()
        buffers.gradients()
        assert [parameter.grad[0].item() for parameter in parameters] == [count, count]


def test_a_parameter_used_on_another_rank_only_counts_after_mark_present():
    used, unused = make((3,), (4,))
    buffers = FlatBuffers([used, unused])
    used.sum().backward()
    (flat,) = buffers.gradients()
    flat.add_(1)
    buffers.mark_present()
    assert buffers.present() == [True, True]
    assert unused.grad.tolist() == [1.0] * 4


def test_replaced_data_are_taken_in():
    parameter, other = make((3,), (2,))
    buffers = FlatBuffers([parameter, other])
    place = parameter.data_ptr()
    parameter.data = torch.tensor([1.0, 2.0, 3.0])
    buffers.refresh()
    assert parameter.data_ptr() == place
    assert parameter.tolist() == [1.0, 2.0, 3.0]


def test_a_model_that_changes_its_dtype_gets_new_buffers():
    model = nn.Linear(3, 2)
    buffers = FlatBuffers(model.parameters())
    values = model.weight.detach().clone()
    model.double()
    buffers.refresh()
    assert [buffer.dtype for buffer in buffers.buffers] == [torch.float64]
    assert torch.equal(model.weight, values.double())
    model(torch.ones(1, 3, dtype=torch.float64)).sum().backward()
    assert [flat.dtype for flat in buffers.gradients()] == [torch.float64]


def test_a_copy_of_the_model_has_memory_of_its_own():
    model = nn.Linear(3, 2)
    buffers = FlatBuffers(model.parameters())
    twin = copy.deepcopy(model)
    with torch.no_grad():
        buffers.buffers[0].flat.zero_()
    assert model.weight.abs().sum() == 0
    assert twin.weight.abs().sum() > 0


def test_loading_a_state_dictionary_keeps_the_views():
    model, other = nn.Linear(3, 2), nn.Linear(3, 2)
    buffers = FlatBuffers(model.parameters())
    model.load_state_dict(other.state_dict())
    assert lies_in(model.weight, [buffers.buffers[0].flat])
    assert torch.equal(model.weight, other.weight)


def test_frozen_parameters_lie_in_the_buffer_and_get_no_gradient():
    frozen, free = make((3,), (3,))
    frozen.requires_grad_(False)
    buffers = FlatBuffers([frozen, free])
    free.sum().backward()
    buffers.gradients()
    buffers.mark_present()
    assert buffers.present() == [False, True]
    assert frozen.grad is None


def test_sparse_gradients_are_refused_in_one_sentence():
    embedding = nn.Embedding(4, 2, sparse=True)
    buffers = FlatBuffers(embedding.parameters())
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(InputError, match=r"shape \(4, 2\) is sparse .*sparse=False"):
        buffers.gradients()


def tied() -> list[torch.Tensor]:
    first = torch.randn(4)
    return [first.requires_grad_(), first.detach().view(2, 2).requires_grad_()]


def twice() -> list[torch.Tensor]:
    first = torch.randn(4, requires_grad=True)
    return [first, first]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (tied, "parameters 0 and 1 share memory"),
        (twice, "a parameter is listed twice"),
        (lambda: [torch.empty(2, device="meta", requires_grad=True)], "is on the meta device"),
        (lambda: [torch.zeros(2, dtype=torch.complex64, requires_grad=True)], "not of a real floating-point dtype"),
        (lambda: [torch.ones(2, requires_grad=True) * 2], "is not a leaf"),
        (lambda: list(nn.LazyLinear(3).parameters()), "has no shape yet"),
        (lambda: [torch.zeros(2, 2).to_sparse().requires_grad_()], "is sparse"),
    ],
)
def test_parameters_that_cannot_lie_in_a_buffer_are_refused_in_one_sentence(parameters, words):
    with pytest.raises(InputError, match=words) as raised:
        FlatBuffers(parameters())
    assert str(raised.value).count(". ") == 0


def test_steps_take_no_memory_for_gradients_of_large_parameters_until_they_are_asked_for():
    small, large = make((3,), (LARGE,))
    optimizer = SGD([small, large], lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        (small.sum() + large.sum()).backward()
        optimizer.step()
    (buffer,) = optimizer.stepper().buffers.buffers
    assert buffer.gradient.numel() == 3
    (flat,) = optimizer.stepper().buffers.gradients()
    assert flat.sum() == LARGE + 3
    assert lies_in(large.grad, [flat])
    assert lies_in(small.grad, [flat])


@pytest.mark.parametrize("written", [True, False])
def test_growing_the_flat_gradient_keeps_what_counts_as_a_gradient(written):
    small, other, large = make((3,), (4,), (LARGE,))
    optimizer = SGD([small, other, large], lr=0.1)
    (small.sum() + other.sum() + large.sum()).backward()
    optimizer.step()
    optimizer.zero_grad()
    (other.sum() + large.sum() + (small.sum() if written else 0)).backward()
    optimizer.stepper().buffers.gradients()
    assert optimizer.stepper().buffers.present() == [written, True, True]
    assert other.grad.tolist() == [1.0] * 4


def test_a_large_gradient_in_another_order_is_copied():
    parameter = torch.zeros(8, LARGE // 8, requires_grad=True)
    optimizer = SGD([parameter], lr=1.0)
    gradient = torch.arange(float(LARGE)).view(LARGE // 8, 8).t()
    parameter.grad = gradient
    optimizer.step()
    assert torch.equal(parameter, -gradient)
