"""Convolutions by the vendor's names against PyTorch's."""

from __future__ import annotations

import pytest
import torch
from custom_reference import leaf, same

from jumar.device import DevicePlan, activate
from jumar.npu import listen

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
npu = torch.ops.npu
F = torch.nn.functional


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_convolution_in_two_and_three_dimensions(groups, bias):
    for dims, plain in ((2, F.conv2d), (3, F.conv3d)):
        x, weight = leaf(2, 4, *[7, 6, 5][:dims]), leaf(6, 4 // groups, *[3, 2, 3][:dims])
        rest = ([2, 1, 1][:dims], [1, 0, 1][:dims], [1, 2, 1][:dims], groups)
        inputs = (x, weight, leaf(6) if bias else None)
        same(lambda *t, r=rest: npu.npu_convolution(*t, *r), lambda *t, p=plain, r=rest: p(*t, *r), *inputs,
             rtol=1e-4, atol=1e-4)  # fmt: skip
        fixed = [None if t is None else t.detach() for t in inputs]
        operator = npu.npu_conv2d if dims == 2 else npu.npu_conv3d
        same(
            lambda *t, r=rest, o=operator: o(*t, *r),
            lambda *t, p=plain, r=rest: p(*t, *r),
            *fixed,
            rtol=1e-4,
            atol=1e-4,
        )


def test_four_paddings_are_top_bottom_left_right():
    x, weight = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)
    found = npu.npu_conv2d(x.npu(), weight.npu(), None, [1, 1], [1, 0, 2, 1], [1, 1], 1)
    torch.testing.assert_close(found.cpu(), F.conv2d(F.pad(x, [2, 1, 1, 0]), weight), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolution(groups):
    for dims, plain in ((2, F.conv_transpose2d), (3, F.conv_transpose3d)):
        x, weight = leaf(2, 4, *[5, 4, 3][:dims]), leaf(4, 6 // groups, *[3, 2, 3][:dims])
        stride, padding, extra, dilation = [2, 1, 2][:dims], [1, 0, 1][:dims], [1, 0, 0][:dims], [1, 2, 1][:dims]
        same(
            lambda *t, r=(padding, extra, stride, dilation, groups): npu.npu_convolution_transpose(*t, *r),
            lambda *t, p=plain, r=(stride, padding, extra, groups, dilation): p(*t, *r),
            x, weight, leaf(6), rtol=1e-4, atol=1e-4,
        )  # fmt: skip
    x, weight = torch.randn(2, 4, 5, 4), torch.randn(4, 3, 3, 2)
    found = npu.npu_conv_transpose2d(x.npu(), weight.npu(), None, [1, 0], [0, 0], [2, 1], [1, 1], 1)
    torch.testing.assert_close(found.cpu(), F.conv_transpose2d(x, weight, None, [2, 1], [1, 0]), rtol=1e-4, atol=1e-4)


def wanted(plain, inputs, seed):
    return torch.autograd.grad(plain(*inputs), inputs, seed)


@pytest.mark.parametrize(("name", "plain", "x_shape", "weight_shape", "out_shape", "call"), [
    ("npu_conv2d_backward", lambda x, w, b: F.conv2d(x, w, b, 2, 1), (2, 3, 6, 6), (4, 3, 3, 3), (2, 4, 3, 3),
     lambda o, x, g, w: o(x, g, w, [2, 2], [1, 1], [1, 1], 1, [True] * 3)),
    ("npu_conv3d_backward", lambda x, w, b: F.conv3d(x, w, b, 1, 1), (1, 2, 4, 4, 4), (3, 2, 3, 3, 3), (1, 3, 4, 4, 4),
     lambda o, x, g, w: o(x, g, w, [1] * 3, [1] * 3, [1] * 3, 1, [True] * 3)),
    ("npu_conv_transpose2d_backward", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1), (2, 3, 4, 4), (3, 4, 3, 3),
     (2, 4, 8, 8), lambda o, x, g, w: o(x, g, w, [1, 1], [1, 1], [2, 2], [1, 1], 1, [True] * 3)),
    ("npu_conv_transpose3d_backward", F.conv_transpose3d, (1, 2, 3, 3, 3), (2, 3, 2, 2, 2),
     (1, 3, 4, 4, 4), lambda o, x, g, w: o(x, g, w, [0] * 3, [0] * 3, [1] * 3, [1] * 3, 1, [True] * 3)),
    ("slow_conv_dilated2d_backward", lambda x, w, b: F.conv2d(x, w, b, 1, 2, 2), (2, 3, 6, 6), (4, 3, 3, 3),
     (2, 4, 6, 6), lambda o, x, g, w: o(g, x, w, [3, 3], [1, 1], [2, 2], [2, 2], [True] * 3)),
    ("slow_conv_transpose2d_backward", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1), (2, 3, 4, 4), (3, 4, 3, 3),
     (2, 4, 8, 8), lambda o, x, g, w: o(g, x, w, [3, 3], [2, 2], [1, 1], [1, 1], [1, 1], [True] * 3)),
])  # fmt: skip
def test_backward_operators_called_by_name(name, plain, x_shape, weight_shape, out_shape, call):
    x, weight, bias, seed = leaf(*x_shape), leaf(*weight_shape), leaf(out_shape[1]), torch.randn(out_shape)
    found = call(getattr(npu, name), x.detach().npu(), seed.npu(), weight.detach().npu())
    for mine, theirs in zip(found, wanted(plain, (x, weight, bias), seed), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-4)


def test_the_backward_of_a_depthwise_convolution():
    x, weight = leaf(2, 3, 6, 6), leaf(3, 1, 3, 3)
    seed = torch.randn(2, 3, 6, 6)
    expected = torch.autograd.grad(F.conv2d(x, weight, None, 1, 1, groups=3), (x, weight), seed)
    found = npu._conv_depthwise2d_backward(
        seed.npu(), x.detach().npu(), weight.detach().npu(), [3, 3], [1, 1], [1, 1], [1, 1], [True, True]
    )
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-4)


def test_gradients_that_are_not_asked_for_are_none():
    x, weight, grad = torch.randn(1, 2, 4, 4).npu(), torch.randn(3, 2, 3, 3).npu(), torch.randn(1, 3, 2, 2).npu()
    by_x, by_weight, by_bias = npu.npu_convolution_backward(
        x, grad, weight, [1, 1], [0, 0], [1, 1], 1, [False, True, False]
    )
    assert by_x is None
    assert by_bias is None
    assert by_weight.shape == weight.shape


def test_the_backward_of_a_convolution_is_one_event():
    x = torch.randn(1, 2, 4, 4).npu().requires_grad_()
    weight = torch.randn(3, 2, 3, 3).npu().requires_grad_()
    result = npu.npu_convolution(x, weight, None, [1, 1], [0, 0], [1, 1], 1)
    seed, seen = torch.ones_like(result.detach()), []
    with listen(lambda event: seen.append(event.operator)):
        result.backward(seed)
    assert [name for name in seen if name.startswith("npu::")] == ["npu::npu_convolution_backward"]
