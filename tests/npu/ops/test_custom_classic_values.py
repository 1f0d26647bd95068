"""Extremes, masks, signs, indices and backward operators against PyTorch's and plain loops."""

from __future__ import annotations

import math

import pytest
import torch
from custom_reference import leaf, same

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
npu = torch.ops.npu
F = torch.nn.functional


@pytest.mark.parametrize(("operator", "plain"), [(npu.npu_max, torch.max), (npu.npu_min, torch.min)])
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("keepdim", [True, False])
def test_extremes_have_int32_indices_and_a_gradient(operator, plain, dim, keepdim):
    def reference(x):
        values, indices = plain(x, dim, keepdim)
        return values, indices.to(torch.int32)

    same(lambda x: operator(x, dim, keepdim), reference, leaf(4, 1, 5))


def test_the_first_of_equal_extremes_is_named():
    x = torch.tensor([[1.0, 3, 3, 0], [2, 2, 2, 2]]).npu()
    assert npu.npu_max(x, 1)[1].cpu().tolist() == [1, 0]
    assert npu.npu_min(x, 1)[1].cpu().tolist() == [3, 0]


def test_scatter_replaces_one_element_an_index():
    x, indices, updates = torch.zeros(2, 3, 4), torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]]), torch.randn(2, 4)
    expected = x.clone()
    for i in range(2):
        for j in range(4):
            expected[i, indices[i, j], j] = updates[i, j]
    assert torch.equal(npu.npu_scatter(x.npu(), indices.int().npu(), updates.npu(), 1).cpu(), expected)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("descending", [True, False])
def test_sorting_gives_values_alone(dim, descending):
    x = torch.randint(0, 9, (4, 5)).float()
    assert torch.equal(npu.npu_sort_v2(x.npu(), dim, descending).cpu(), x.sort(dim, descending)[0])


def test_sums_of_devices_make_the_statistics_of_one_batch():
    batch = torch.randn(6, 3, 4, 5)
    sums = [npu.batch_norm_reduce(part.npu(), 1e-5) for part in (batch[:2], batch[2:])]
    mean, var = torch.zeros(3).npu(), torch.ones(3).npu()
    found = npu.batch_norm_gather_stats_update(
        batch.npu(), torch.stack([s[0] for s in sums]), torch.stack([s[1] for s in sums]), mean, var, 0.1, 1e-5,
        torch.tensor([40, 80], dtype=torch.int32).npu(),
    )  # fmt: skip
    expected = batch.mean((0, 2, 3)), (batch.var((0, 2, 3), correction=0) + 1e-5).rsqrt()
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-5)
    layer = torch.nn.BatchNorm2d(3)
    layer(batch)
    torch.testing.assert_close(mean.cpu(), layer.running_mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(var.cpu(), layer.running_var, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("shape", "axis"), [((6,), 0), ((3, 6), -1), ((3, 6), 0), ((3, 2, 6), 2), ((3, 6, 2), 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_ranges_are_filled(shape, axis, dtype):
    x = torch.randint(1, 50, shape).to(dtype)
    size = shape[axis]
    start = torch.tensor([[0, 2, 1], [size - 1, 0, 2]], dtype=torch.int32)
    end = torch.tensor([[1, 2, 3], [size + 3, 1, 2]], dtype=torch.int32)
    value = torch.tensor([60, 61]).to(dtype)
    expected = x.clone()
    for i in range(2):
        for j in range(3):
            for k in range(start[i, j], min(end[i, j].item(), size)):
                if len(shape) > 1 and axis in (-1, len(shape) - 1):
                    expected[j, ..., k] = value[i]
                else:
                    expected.select(axis, k).fill_(value[i])
    found = npu.npu_masked_fill_range(x.npu(), start.npu(), end.npu(), value.npu(), axis)
    assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("kind", [0, 1])
def test_batches_are_normalised_over_their_lengths(kind):
    x, lengths = torch.rand(4, 3, 7) * 9 + 1, torch.tensor([3, 7, 2, 5], dtype=torch.int32)
    expected = torch.empty_like(x)
    for i, length in enumerate(lengths.tolist()):
        own = x[i, :, :length]
        dims = (1,) if kind == 0 else (0, 1)
        mean, deviation = own.mean(dims, keepdim=True), own.std(dims, keepdim=True)
        expected[i] = (x[i] - mean) / (deviation + 1e-5)
    found = npu.npu_normalize_batch(x.npu(), lengths.npu(), kind)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("x_shape", [(6, 2, 4, 5), (2, 3, 2, 4, 5)])
@pytest.mark.parametrize("mask_shape", [None, (3, 4, 5), (3, 1, 4, 5), (1, 3, 1, 4, 5)])
@pytest.mark.parametrize("bias_shape", [(2, 4, 5), (1, 1, 2, 4, 5)])
def test_the_softmax_of_window_attention(x_shape, mask_shape, bias_shape):
    x, bias = torch.randn(x_shape), torch.randn(bias_shape)
    mask = None if mask_shape is None else torch.randn(mask_shape)
    scores = x.reshape(2, 3, 2, 4, 5) * 0.5 + bias.reshape(1, 1, 2, 4, 5)
    if mask is not None:
        scores = scores + mask.reshape(1, 3, 1, 4, 5)
    found = npu.npu_masked_softmax_with_rel_pos_bias(x.npu(), None if mask is None else mask.npu(), bias.npu(), 0.5)
    torch.testing.assert_close(found.cpu(), torch.softmax(scores, -1).reshape(x_shape))


def test_the_softmax_loss_and_its_gradient():
    labels = torch.softmax(torch.randn(4, 7), -1)
    same(
        lambda x: npu.npu_softmax_cross_entropy_with_logits(x, labels.npu()),
        lambda x: F.cross_entropy(x, labels, reduction="none"),
        leaf(4, 7),
    )


@pytest.mark.parametrize("num", [1, 8, 14, 64])
def test_signs_are_packed_with_the_lowest_bit_first(num):
    x = torch.randn(num)
    packed = npu.npu_sign_bits_pack(x.npu(), 1).cpu()
    bits = (x >= 0).int().tolist() + [0] * (-num % 8)
    expected = [sum(bit << i for i, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8)]
    assert packed.tolist() == [expected]
    again = npu.npu_sign_bits_unpack(packed.flatten().npu(), 1, torch.float16)
    assert again.cpu().flatten().tolist() == [2.0 * bit - 1 for bit in bits]


def test_the_documented_packed_signs():
    x = torch.tensor([5, 4, 3, 2, 0, -1, -2, 4, 3, 2, 1, 0, -1, -2], dtype=torch.float32).npu()
    assert npu.npu_sign_bits_pack(x, 2).cpu().tolist() == [[159], [15]]
    with pytest.raises(RuntimeError, match="size must divide the 2 bytes, but got 3"):
        npu.npu_sign_bits_pack(x, 3)


@pytest.mark.parametrize("index_shape", [(4,), (2, 3), (0,)])
def test_rows_gathered_by_an_index_and_their_gradient(index_shape):
    index = torch.randint(0, 5, index_shape)
    same(lambda x: npu.npu_gather_sparse_index(x, index.npu()), lambda x: x[index], leaf(5, 3, 2))


def test_rows_are_added_by_an_index():
    x, index, source = torch.randn(5, 3), torch.tensor([[0, 4], [0, 2]]), torch.randn(2, 2, 3)
    expected = x.clone().index_add(0, index.flatten(), source.reshape(4, 3), alpha=2)
    there = x.npu()
    torch.testing.assert_close(npu._npu_index_add(there, index.npu(), source.npu(), alpha=2).cpu(), expected)
    npu._npu_index_add_(there, index.npu(), source.npu(), alpha=2)
    torch.testing.assert_close(there.cpu(), expected)


def test_the_backward_of_gather():
    x, index, seed = leaf(4, 5), torch.randint(0, 4, (2, 5)), torch.randn(2, 5)
    (expected,) = torch.autograd.grad(x.gather(0, index), x, seed)
    assert torch.equal(npu.npu_gather_backward(seed.npu(), [4, 5], 0, index.npu(), False).cpu(), expected)
    with pytest.raises(NotImplementedError, match="sparse"):
        npu.npu_gather_backward(seed.npu(), [4, 5], 0, index.npu(), True)


@pytest.mark.parametrize(("start", "length"), [(0, 1), (2, 3), (0, 6)])
def test_a_part_along_an_axis_is_updated(start, length):
    x, updates = torch.randn(3, 2, 6, 4), torch.randn(3, 2, length, 4)
    indices = torch.tensor([start, 0, 6 - length])
    expected = x.clone()
    for i, first in enumerate(indices.tolist()):
        expected[i, :, first : first + length] = updates[i]
    there = x.npu()
    assert torch.equal(npu.scatter_update(there, indices.npu(), updates.npu(), -2).cpu(), expected)
    assert torch.equal(there.cpu(), x)
    assert npu.scatter_update_(there, indices.npu(), updates.npu(), -2) is there
    assert torch.equal(there.cpu(), expected)


@pytest.mark.parametrize("masked", [True, False])
def test_parts_of_a_list_are_updated(masked):
    x, updates = [torch.randn(2, 6, 4) for _ in range(3)], torch.randn(3, 2, 2, 4)
    indices, mask = torch.tensor([1, 0, 4]), torch.tensor([1, 0, 1], dtype=torch.uint8)
    expected = [item.clone() for item in x]
    for i, first in enumerate(indices.tolist()):
        if mask[i] or not masked:
            expected[i][:, first : first + 2] = updates[i]
    there = [item.npu() for item in x]
    arguments = (indices.npu(), updates.npu(), mask.npu() if masked else None)
    found = npu.npu_scatter_list(there, *arguments)
    assert all(torch.equal(mine.cpu(), theirs) for mine, theirs in zip(found, expected, strict=True))
    assert all(torch.equal(mine.cpu(), theirs) for mine, theirs in zip(there, x, strict=True))
    assert npu.npu_scatter_list_(there, *arguments) is None
    assert all(torch.equal(mine.cpu(), theirs) for mine, theirs in zip(there, expected, strict=True))


def test_an_update_that_does_not_fit_is_refused():
    with pytest.raises(RuntimeError, match="updates must fit within 6 elements"):
        npu.scatter_update(torch.zeros(1, 6).npu(), torch.tensor([5]).npu(), torch.zeros(1, 2).npu(), 1)


@pytest.mark.parametrize("dim", [None, 0, -1])
def test_the_backward_of_repeating(dim):
    x = leaf(3, 4)
    y = x.repeat_interleave(3, dim)
    seed = torch.randn(y.shape)
    (expected,) = torch.autograd.grad(y, x, seed)
    torch.testing.assert_close(npu.repeat_interleave_backward_int(seed.npu(), x.detach().npu(), 3, dim).cpu(), expected)
    num = 12 if dim is None else x.shape[dim]
    repeats = torch.randint(0, 4, (num,))
    y = x.repeat_interleave(repeats, dim)
    seed = torch.randn(y.shape)
    (expected,) = torch.autograd.grad(y, x, seed)
    found = npu.repeat_interleave_backward_tensor(seed.npu(), x.detach().npu(), repeats.npu(), dim)
    torch.testing.assert_close(found.cpu(), expected)


REDUCTIONS = [("none", 0), ("mean", 1), ("sum", 2)]


@pytest.mark.parametrize(("name", "code"), REDUCTIONS)
def test_the_backward_of_losses(name, code):
    x, target = leaf(4, 5), torch.rand(4, 5).requires_grad_()
    weight, positive = torch.rand(5), torch.rand(5) * 3
    seed = torch.randn(4, 5) if name == "none" else torch.randn(())
    fixed = [item.detach().npu() for item in (x, target)]

    def check(loss, inputs, *found):
        expected = torch.autograd.grad(loss, inputs, seed)
        for mine, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-5)

    check(F.l1_loss(x, target, reduction=name), [x], npu.l1_loss_backward(seed.npu(), *fixed, code))
    for log_target in (True, False):
        found = [operator(seed.npu(), *fixed, code, log_target=log_target)
                 for operator in (npu.kl_div_backward, npu.kl_div_target_backward)]  # fmt: skip
        check(torch.kl_div(x, target, code, log_target=log_target), [x, target], *found)
    for w, p in ((None, None), (weight, positive)):
        loss = F.binary_cross_entropy_with_logits(x, target, w, reduction=name, pos_weight=p)
        given = [None if item is None else item.npu() for item in (w, p)]
        check(loss, [x], npu.npu_binary_cross_entropy_with_logits_backward(seed.npu(), *fixed, *given, code))


@pytest.mark.parametrize("p", [1, 2, 3, math.inf])
def test_the_backward_of_renorm(p):
    x, seed = leaf(4, 5), torch.randn(4, 5)
    (expected,) = torch.autograd.grad(torch.renorm(x, p, 0, 1.5), x, seed)
    found = npu.npu_renorm_backward(seed.npu(), x.detach().npu(), p, 0, 1.5)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("as_complex", [True, False])
@pytest.mark.parametrize("windowed", [True, False])
def test_the_backward_of_stft(onesided, as_complex, windowed):
    x, window = leaf(2, 20), torch.hann_window(8) if windowed else torch.ones(8)
    y = torch.stft(x, 8, 3, 8, window, False, "reflect", True, onesided, return_complex=True)
    seed = torch.randn_like(y)
    (expected,) = torch.autograd.grad(y, x, seed)
    given = seed if as_complex else torch.view_as_real(seed)
    found = npu.stft_backward(given.npu(), x.detach().npu(), 8, 3, 8, window.npu(), True, onesided, as_complex)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [6, 7])
@pytest.mark.parametrize("dim", [(1,), (0, 1), (1, 0)])
def test_the_backward_of_real_transforms(size, dim):
    x = leaf(5, size)
    for onesided in (True, False):
        y = torch.ops.aten._fft_r2c(x, dim, 1, onesided)
        seed = torch.randn_like(y)
        (expected,) = torch.autograd.grad(y, x, seed)
        found = npu.fft_r2c_backward(seed.npu(), dim, 1, onesided, x.shape[dim[-1]])
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)
    half = torch.ops.aten._fft_r2c(x.detach(), dim, 0, True).requires_grad_()
    back = torch.ops.aten._fft_c2r(half, dim, 2, x.shape[dim[-1]])
    seed = torch.randn_like(back)
    (expected,) = torch.autograd.grad(back, half, seed)
    found = npu.fft_c2r_backward(seed.npu(), dim, 2)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("first", "second"), [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((4,), (4, 5)), ((4,), (4,))])
def test_the_second_derivative_of_a_product(first, second):
    a, b = leaf(*first), leaf(*second)
    grad = torch.randn_like(torch.matmul(a, b)).requires_grad_()
    by = torch.autograd.grad(torch.matmul(a, b), (a, b), grad, create_graph=True)
    seeds = [torch.randn_like(item) for item in by]
    expected = torch.autograd.grad(by, (grad, a, b), seeds)
    fixed = [item.detach().npu() for item in (*seeds, grad, a, b)]
    for mine, theirs in zip(npu.matmul_double_backward(*fixed, [True] * 3), expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-5)
    assert npu.matmul_double_backward(*fixed, [False, True, False])[0] is None
