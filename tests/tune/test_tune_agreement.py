"""Outputs agree within the dtype's rounding, and every other difference is seen."""

from __future__ import annotations

import pytest
import torch

from jumar.tune.worker.agreement import compare


def mm(left, right):
    return torch.ops.aten.mm(left, right)


@pytest.fixture
def tensors():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(16, 400, generator=generator), torch.randn(400, 16, generator=generator)]


def test_another_order_of_the_same_sum_agrees(tensors):
    def halves(left, right):
        return mm(left[:, 200:], right[200:]) + mm(left[:, :200], right[:200])

    agreement = compare(mm, halves, tensors)
    assert agreement.detail == ""
    assert 0 < agreement.worst_error < agreement.allowed_error < 1e-5


def test_the_tolerance_is_the_dtypes_own(tensors):
    half = [tensor.bfloat16() for tensor in tensors]
    assert compare(mm, lambda left, right: mm(left.float(), right.float()).bfloat16(), half).detail == ""
    assert "its error is" in compare(mm, lambda *two: mm(*(one.bfloat16() for one in two)).float(), tensors).detail


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        (lambda left, right: mm(left, right) * 1.001, "its error is"),
        (lambda left, right: mm(left, right).double(), "its dtype is torch.float64"),
        (lambda left, right: mm(left, right)[:8], "its shape is"),
        (lambda left, right: mm(left, right).t().contiguous().t(), "its strides are (1, 16)"),
        (lambda left, right: (mm(left, right), left), "it returns 2 tensors"),
        (lambda left, right: mm(left.mul_(1.0001), right), "it changes its inputs"),
        (lambda left, right: mm(left, right).index_fill_(0, torch.tensor([3]), float("nan")), "NaN or Inf"),
    ],
)
def test_each_kind_of_difference_is_named(tensors, candidate, said):
    assert said in compare(mm, candidate, tensors).detail


def test_nan_where_the_operator_has_nan_agrees():
    masked = torch.full((2, 4), -torch.inf)
    masked[0] = 1.0
    assert compare(lambda x: torch.softmax(x, -1), lambda x: torch.softmax(x, -1), [masked]).detail == ""
    assert compare(lambda x: torch.softmax(x, -1), lambda x: torch.softmax(x, -1).nan_to_num(), [masked]).detail != ""


def test_integers_must_be_equal():
    image = torch.randn(1, 2, 4, 4)

    def pool(x):
        return torch.ops.aten.max_pool2d_with_indices(x, [2, 2])

    assert compare(pool, pool, [image]).detail == ""
    assert compare(pool, lambda x: (pool(x)[0], pool(x)[1] + 1), [image]).detail == "its integers differ"


def test_an_operator_without_a_float64_kernel_is_compared_all_the_same():
    def only_float32(x):
        if x.dtype is torch.float64:
            raise NotImplementedError
        return x.exp()

    values = [torch.randn(50)]
    assert compare(only_float32, only_float32, values).detail == ""
    assert compare(only_float32, lambda x: x.exp() * 1.01, values).detail != ""


@pytest.mark.parametrize("place", [0, 7, 8, 18])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 3.0])
def test_large_outputs_are_compared_piece_by_piece_to_their_last_value(monkeypatch, place, wrong):
    monkeypatch.setattr("jumar.tune.worker.agreement.PIECE", 8)

    def off(tensor):
        made = tensor * 2
        made[place] = wrong
        return made

    given = [torch.linspace(1, 2, 19)]
    assert not compare(lambda tensor: tensor * 2, lambda tensor: tensor + tensor, given).detail
    assert compare(lambda tensor: tensor * 2, off, given).detail
    assert not compare(off, off, given).detail, "the same in the same place"
