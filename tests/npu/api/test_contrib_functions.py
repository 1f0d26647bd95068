"""Functions of `torch_npu.contrib.function` that are rewritings of plain ones, and the operators they use."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from jumar.device import DevicePlan, activate
from jumar.npu.api.contrib import function
from jumar.npu.core.events import listen

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

Tensor = torch.Tensor


def test_matmul_transpose_is_a_product_with_gradients():
    found = []
    for device in ("npu", "cpu"):
        generator = torch.Generator().manual_seed(0)
        q, k = (torch.randn(2, 3, n, 4, generator=generator).to(device).requires_grad_() for n in (5, 6))
        result = function.matmul_transpose(q, k) if device == "npu" else q @ k.transpose(-2, -1)
        (result * torch.linspace(-1, 1, result.numel()).view(result.shape).to(device)).sum().backward()
        found.append([tensor.detach().cpu() for tensor in (result, q.grad, k.grad)])
    torch.testing.assert_close(found[0], found[1])


def test_matmul_transpose_takes_its_gradients_by_bmm():
    q, k = (torch.randn(2, 5, 4).npu().requires_grad_() for _ in range(2))
    result = function.matmul_transpose(q, k)
    operators: list[str] = []
    with listen(lambda event: operators.append(event.operator)):
        result.sum().backward()
    assert operators.count("npu::npu_bmmV2") == 2


@pytest.mark.parametrize("shifts", [(-3, -3), (2, 0), (1, -5), (7, 9)])
def test_roll_is_torch_roll_over_height_and_width_with_gradients(shifts):
    x = torch.randn(2, 6, 7, 3).npu().requires_grad_()
    expected, result = torch.roll(x, shifts, (1, 2)), function.roll(x, shifts, (1, 2))
    assert torch.equal(expected, result)
    weights = torch.randn(result.shape).npu()
    gradients = [torch.autograd.grad((each * weights).sum(), x)[0] for each in (expected, result)]
    assert torch.equal(*gradients)


def test_roll_takes_the_dimensions_in_the_other_order_where_that_is_the_same():
    x = torch.randn(1, 4, 5, 2).npu()
    assert torch.equal(torch.roll(x, (2, 2), (2, 1)), function.roll(x, (2, 2), (-2, 1)))


def test_roll_over_other_dimensions_rolls_height_and_width_with_a_warning():
    x = torch.randn(4, 4, 5, 2).npu()
    with pytest.warns(UserWarning, match=r"rolls dimensions 1 and 2, as on the NPU, not \(0, 1\)"):
        result = function.roll(x, (1, 2), (0, 1))
    assert torch.equal(torch.roll(x, (1, 2), (1, 2)), result)


def test_roll_is_one_selection_each_way():
    x = torch.randn(1, 4, 5, 2).npu().requires_grad_()
    function.roll(x, (1, 1), (1, 2))
    operators: list[str] = []
    with listen(lambda event: operators.append(event.operator)):
        result = function.roll(x, (1, 1), (1, 2))
        result.backward(torch.ones_like(result))
    assert operators.count("aten::index_select") == 2
    assert "aten::roll" not in operators
    assert "aten::index_add" not in operators


@pytest.mark.parametrize(
    ("shape", "shifts", "dims", "words"),
    [
        ((4, 5, 2), (1, 1), (1, 2), r"x\.dim\(\) == 4"),
        ((1, 4, 5, 2), (1,), (1, 2), r"len\(shifts\) == 2"),
        ((1, 4, 5, 2), (1, 1), (1,), r"len\(dims\) == 2"),
    ],
)
def test_roll_wants_two_shifts_of_four_dimensions(shape, shifts, dims, words):
    with pytest.raises(ValueError, match=words):
        function.roll(torch.ones(shape).npu(), shifts, dims)


@pytest.mark.parametrize("value", [0, 1, 0.25, -3])
def test_condition_index_put_is_assignment_where_the_condition_holds(value):
    x = torch.randn(4, 5).npu()
    expected = x.clone()
    expected[x < 0.2] = value
    kept = x.clone()
    leaf = x.clone().requires_grad_()
    result = function.npu_fast_condition_index_put(leaf, x < 0.2, value)
    assert torch.equal(expected, result)
    assert torch.equal(kept, x)
    assert torch.equal(torch.autograd.grad(result.sum(), leaf)[0], (x >= 0.2).float())


def test_condition_index_put_wants_a_bool_condition():
    with pytest.raises(TypeError, match=r"condition\.dtype in \[torch\.bool\]"):
        function.npu_fast_condition_index_put(torch.ones(2).npu(), torch.ones(2, dtype=torch.uint8).npu(), 0)


def plain_softmax(mask: Tensor, scores: Tensor, head_size: int) -> Tensor:
    return functional.softmax(scores / math.sqrt(head_size) + mask, -1)


@pytest.mark.parametrize("height", [128, 40], ids=["fused", "composed"])
def test_add_softmax_dropout_without_dropout_is_the_masked_softmax(height):
    scores, mask = torch.randn(4, 8, height, 16).npu().requires_grad_(), torch.randn(4, 8, height, 16).npu()
    dropout = torch.nn.Dropout(0.3).eval()
    result = function.fuse_add_softmax_dropout(False, dropout, mask, scores, 64, p=0.3)
    expected = plain_softmax(mask, scores, 64)
    torch.testing.assert_close(result, expected)
    weights = torch.randn(result.shape).npu()
    gradients = [torch.autograd.grad((each * weights).sum(), scores)[0] for each in (result, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("height", [128, 40], ids=["fused", "composed"])
def test_add_softmax_dropout_drops_while_training(height):
    scores, mask = torch.randn(4, 8, height, 16).npu().requires_grad_(), torch.zeros(4, 8, height, 16).npu()
    result = function.fuse_add_softmax_dropout(True, torch.nn.Dropout(0.25), mask, scores, 64, p=0.25)
    expected = plain_softmax(mask, scores, 64) / 0.75
    kept = result.detach().ne(0)
    torch.testing.assert_close(result[kept], expected[kept])
    assert 0.73 < kept.float().mean().item() < 0.77
    gradients = [torch.autograd.grad(each.sum(), scores)[0] for each in (result, expected * kept)]
    torch.testing.assert_close(*gradients)


def test_add_softmax_dropout_is_one_operator_where_the_device_has_it():
    def operators(height: int, heads: int) -> list[str]:
        x, found = torch.randn(4, heads, height, 16).npu(), []
        with listen(lambda event: found.append(event.operator)):
            function.fuse_add_softmax_dropout(False, torch.nn.Identity(), x, x, 64)
        return found

    assert operators(128, 8) == ["npu::npu_dropout_with_add_softmax"]
    assert "aten::_softmax" in operators(128, 7)
    assert "aten::_softmax" in operators(96, 8)


def test_dropout_with_byte_mask_is_one_operator_that_drops():
    x = torch.ones(64, 64).npu().requires_grad_()
    operators: list[str] = []
    with listen(lambda event: operators.append(event.operator)):
        result = function.dropout_with_byte_mask(x, p=0.25)
    assert [name for name in operators if name.startswith("npu::")] == ["npu::_dropout_with_byte_mask"]
    kept = result.detach().ne(0)
    assert 0.72 < kept.float().mean().item() < 0.78
    torch.testing.assert_close(torch.autograd.grad(result.sum(), x)[0], kept.float() / 0.75)
    assert torch.equal(function.dropout_with_byte_mask(x, training=False), x)


def test_dropout_with_byte_mask_refuses_what_it_cannot():
    with pytest.raises(ValueError, match="between 0 and 1, but got -1"):
        function.dropout_with_byte_mask(torch.ones(2).npu(), p=-1)
    with pytest.raises(ValueError, match="has no-inplace computing"):
        function.dropout_with_byte_mask(torch.ones(2).npu(), inplace=True)
