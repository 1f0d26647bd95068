"""Matrix products and dropout against plain PyTorch."""

from __future__ import annotations

import pytest
import torch
from custom_reference import leaf, on_npu, same

from jumar.device import DevicePlan, activate
from jumar.npu import listen

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
npu = torch.ops.npu


@pytest.mark.parametrize("bias", [True, False])
def test_linear_is_the_product_with_the_transposed_weight(bias):
    x, w, b = leaf(5, 3), leaf(4, 3), leaf(4)
    same(npu.npu_linear, lambda x, w, b=None: x @ w.t() + (0 if b is None else b), *([x, w, b] if bias else [x, w]))


def test_the_backward_of_linear_is_the_vendors_operator():
    x, w = on_npu(leaf(5, 3)), on_npu(leaf(4, 3))
    y = npu.npu_linear(x, w)
    seen = []
    with listen(lambda event: seen.append(event.operator)):
        y.backward(torch.ones_like(y.detach()))
    assert "npu::npu_linear_backward" in seen


def test_a_one_dimensional_input_of_linear_is_refused():
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        npu.npu_linear(torch.ones(3).npu(), torch.ones(2, 3).npu())


@pytest.mark.parametrize(
    ("first", "second"),
    [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((4,), (2, 4, 5)),
     ((2, 3, 4), (4,)), ((2, 1, 3, 4), (1, 6, 4, 5)), ((1, 3, 4), (1, 4, 5))],
)  # fmt: skip
def test_bmm_broadcasts_like_matmul(first, second):
    same(lambda a, b: npu.npu_bmmV2(a, b, []), torch.matmul, leaf(*first), leaf(*second))


def test_the_product_of_two_vectors_is_a_matrix_of_one_element():
    a, b = leaf(4), leaf(4)
    there = [on_npu(a), on_npu(b)]
    actual = npu.npu_bmmV2(*there, [])
    assert actual.shape == (1, 1)
    actual.sum().backward()
    torch.testing.assert_close(there[0].grad.cpu(), b.detach())


def test_output_sizes_sum_the_batches():
    a, b = torch.randn(5, 6, 7, 17), torch.randn(5, 6, 17, 65)
    actual = npu.npu_bmmV2(a.npu(), b.npu(), [1, 6, 7, 65])
    torch.testing.assert_close(actual.cpu(), torch.matmul(a, b).sum(0, keepdim=True), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("with_a", [True, False])
def test_the_lora_product_takes_each_rows_adapter(with_a):
    num, rank = 3, 4
    y, x = torch.randn(5, 12), torch.randn(5, 8 if with_a else rank)
    a, b = torch.randn(num, 2, rank, 8), torch.randn(num, 2, 6, rank)
    indices = torch.tensor([0, 2, 1, 3, 0], dtype=torch.int32)
    expected = y.clone()
    for row, adapter in enumerate(indices.tolist()):
        if adapter < num:
            hidden = a[adapter, 1] @ x[row] if with_a else x[row]
            expected[row, 2:8] += 0.5 * (b[adapter, 1] @ hidden)
    there = y.npu()
    arguments = (x.npu(), b.npu(), indices.npu(), a.npu() if with_a else None, 1, 0.5, 2, 6)
    torch.testing.assert_close(npu.npu_batch_gather_matmul(there, *arguments).cpu(), expected)
    npu.npu_batch_gather_matmul_(there, *arguments)
    torch.testing.assert_close(there.cpu(), expected)


def test_dropout_keeps_the_elements_whose_bit_is_set():
    x = leaf(3, 50)
    there = on_npu(x)
    torch.manual_seed(0)
    result, mask = npu._npu_dropout(there, 0.3)
    assert (mask.dtype, mask.shape) == (torch.uint8, (32,))
    bits = [mask[i // 8].item() >> (i % 8) & 1 for i in range(150)]
    kept = torch.tensor(bits).reshape(3, 50)
    torch.testing.assert_close(result.cpu(), x.detach() * kept / 0.7)
    result.backward(torch.ones_like(result.detach()))
    torch.testing.assert_close(there.grad.cpu(), kept / 0.7)
    assert 0.5 < kept.float().mean() < 0.9


def test_dropout_by_a_given_mask_is_deterministic():
    x = torch.arange(1.0, 5).npu()
    mask = torch.tensor([98] + [255] * 15, dtype=torch.uint8).npu()
    result, again = npu.npu_dropout_do_mask(x, mask, 0.3)
    torch.testing.assert_close(result.cpu(), torch.tensor([0, 2.857143, 0, 0]))
    assert torch.equal(again, mask)


def test_a_mask_that_is_too_short_is_refused():
    with pytest.raises(RuntimeError, match="at least 2 bytes, but got 1"):
        npu.npu_dropout_do_mask(torch.ones(9).npu(), torch.ones(1, dtype=torch.uint8).npu(), 0.5)


@pytest.mark.parametrize(("num", "size"), [(1, 16), (128, 16), (129, 32)])
def test_bit_masks_are_of_128_elements(num, size):
    mask = npu.npu_dropout_gen_mask([num], 0.5, dtype=torch.float16, device="npu")
    assert (mask.shape, mask.dtype, mask.device.type) == ((size,), torch.uint8, "npu")


def test_a_seed_and_an_offset_give_the_same_mask_again():
    x = torch.ones(1).npu()
    masks = [npu._npu_dropout_gen_mask(x, [1000], 0.5, 3, offset).cpu() for offset in (0, 0, 1)]
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


@pytest.mark.parametrize("p", [0.0, 0.4, 1.0])
def test_byte_mask_dropout_and_its_gradient_use_one_mask(p):
    x = on_npu(leaf(40, 5))
    result, mask = npu._dropout_with_byte_mask(x, p)
    kept = mask.cpu().float()
    scale = 1 / (1 - p) if p < 1 else 0
    torch.testing.assert_close(result.cpu(), x.detach().cpu() * kept * scale)
    result.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), kept * scale)


def test_composed_dropout_trains_with_the_mask_it_drew():
    x = on_npu(leaf(40, 5))
    result = npu.dropout_with_byte_mask(x, 0.5, True)
    result.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), result.detach())
    assert torch.equal(npu.dropout_with_byte_mask(x, 0.5, False), x)


def test_composed_dropout_runs_in_inference_mode():
    with torch.inference_mode():
        result = npu.dropout_with_byte_mask(torch.ones(100).npu(), 0.5, True)
    assert set(result.cpu().tolist()) == {0.0, 2.0}


def test_add_softmax_dropout_is_its_parts():
    x, x1 = leaf(2, 3, 4, 8), leaf(2, 3, 4, 8)
    there = [on_npu(x), on_npu(x1)]
    mask, softmax, result = npu.npu_dropout_with_add_softmax(*there, 0.5, 0.2, -1)
    kept = mask.cpu()[: x.numel()].reshape(x.shape).float()
    expected = torch.softmax(x1 + 0.5 * x, -1)
    torch.testing.assert_close(softmax.cpu(), expected)
    dropped = expected * kept / 0.8
    torch.testing.assert_close(result.cpu(), dropped)
    seed = torch.randn(x.shape)
    theirs = torch.autograd.grad(dropped, [x, x1], seed)
    for one, other in zip(torch.autograd.grad(result, there, seed.npu()), theirs, strict=True):
        torch.testing.assert_close(one.cpu(), other)
