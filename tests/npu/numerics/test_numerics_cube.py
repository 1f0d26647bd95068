"""The matrix unit: operands rounded by an independent model, then the CPU's own products."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import jumar
from jumar.device import DevicePlan, activate, emulate
from jumar.npu.api.npu.backends import _CubeMathType
from jumar.npu.core.plans import PLANS

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

Tensor = torch.Tensor


def hf32(x, drop=12):
    """The vendor's model: half a unit is added to the bit pattern, and what is below the unit is cut."""
    bits = x.contiguous().numpy().view(np.uint32).astype(np.uint64)
    cut = ((bits + (1 << (drop - 1))) >> drop << drop).astype(np.uint32)
    return torch.from_numpy(cut.view(np.float32).copy())


def fp16(x):
    return torch.from_numpy(x.numpy().astype(np.float16).astype(np.float32))


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


A, B = randn(24, 40), randn(40, 16, seed=1)
X, W, BIAS = randn(2, 6, 9, 9), randn(4, 6, 3, 3, seed=1), randn(4, seed=2)


@pytest.fixture
def b1():
    with jumar.emulate("Ascend910B1"):
        yield


@pytest.fixture
def first():
    with jumar.emulate("Ascend910A"):
        yield


def test_matrix_products_keep_float32_by_default(b1):
    assert torch.equal((A.npu() @ B.npu()).cpu(), A @ B)


def test_convolutions_round_their_operands_to_hf32_by_default_and_not_their_bias(b1):
    assert (torch.npu.conv.allow_hf32, torch.npu.matmul.allow_hf32) == (True, False)
    y = F.conv2d(X.npu(), W.npu(), BIAS.npu(), padding=1).cpu()
    assert torch.equal(y, F.conv2d(hf32(X), hf32(W), BIAS, padding=1))
    assert not torch.equal(y, F.conv2d(X, W, BIAS, padding=1))


def test_a_rounded_convolution_is_near_the_float64_sum_of_rounded_operands(b1):
    y = F.conv2d(X.npu(), W.npu(), padding=1).cpu().double()
    exact = F.conv2d(hf32(X).double(), hf32(W).double(), padding=1)
    assert (y - exact).abs().max() < 1e-5
    assert (y - F.conv2d(X.double(), W.double(), padding=1)).abs().max() > 1e-4


def test_hf32_of_ascend950_has_one_bit_less():
    with jumar.emulate("Ascend950"):
        y = F.conv2d(X.npu(), W.npu()).cpu()
    assert torch.equal(y, F.conv2d(hf32(X, 13), hf32(W, 13)))


def test_the_switches_turn_it_off_and_on(b1):
    torch.npu.conv.allow_hf32 = False
    torch.npu.matmul.allow_hf32 = True
    assert torch.equal(F.conv2d(X.npu(), W.npu()).cpu(), F.conv2d(X, W))
    assert torch.equal((A.npu() @ B.npu()).cpu(), hf32(A) @ hf32(B))


def test_the_switches_end_with_the_block():
    with jumar.emulate("Ascend910B1"):
        torch.npu.matmul.allow_hf32 = True
    with jumar.emulate("Ascend910B1"):
        assert torch.npu.matmul.allow_hf32 is False
        assert torch.equal((A.npu() @ B.npu()).cpu(), A @ B)


@pytest.mark.parametrize("switch", ["matmul", "conv"])
def test_a_switch_takes_a_bool_only(b1, switch):
    with pytest.raises(TypeError, match="allow_hf32 must be a bool, but got int"):
        getattr(torch.npu, switch).allow_hf32 = 1


def test_exact_numerics_switch_all_of_it_off():
    with jumar.emulate("Ascend910A", numerics="exact"):
        assert torch.equal(F.conv2d(X.npu(), W.npu(), BIAS.npu()).cpu(), F.conv2d(X, W, BIAS))
        assert torch.equal((A.npu() @ B.npu()).cpu(), A @ B)


PRODUCTS = {
    "mm": lambda f, a, b, c: torch.mm(f(a), f(b)),
    "mm.out": lambda f, a, b, c: torch.mm(f(a), f(b), out=a.new_empty(0)),
    "matmul": lambda f, a, b, c: torch.matmul(f(a.view(2, 12, 40)), f(b)),
    "bmm": lambda f, a, b, c: torch.bmm(f(a.view(2, 12, 40)), f(b).expand(2, 40, 16)),
    "mv": lambda f, a, b, c: torch.mv(f(a), f(b[:, 0])),
    "addmv": lambda f, a, b, c: torch.addmv(c[:, 0], f(a), f(b[:, 0]), beta=0.5),
    "addmm": lambda f, a, b, c: torch.addmm(c, f(a), f(b), alpha=2, beta=3),
    "addmm_": lambda f, a, b, c: c.clone().addmm_(f(a), f(b)),
    "addbmm": lambda f, a, b, c: torch.addbmm(c[:12], f(a.view(2, 12, 40)), f(b).expand(2, 40, 16)),
    "baddbmm": lambda f, a, b, c: torch.baddbmm(c.view(2, 12, 16), f(a.view(2, 12, 40)), f(b).expand(2, 40, 16)),
    "baddbmm_": lambda f, a, b, c: c.clone().view(2, 12, 16).baddbmm_(f(a.view(2, 12, 40)), f(b).expand(2, 40, 16)),
    "linear": lambda f, a, b, c: F.linear(f(a), f(b).t(), c[0]),
    "einsum": lambda f, a, b, c: torch.einsum("ik,kj->ji", f(a), f(b)),
}
C = randn(24, 16, seed=3)


@pytest.mark.parametrize("name", PRODUCTS)
def test_every_matrix_product_rounds_both_operands_and_nothing_else(b1, name):
    torch.npu.matmul.allow_hf32 = True
    product = PRODUCTS[name]
    y = product(lambda t: t, A.npu(), B.npu(), C.npu()).cpu()
    assert torch.equal(y, product(hf32, A, B, C))


@pytest.mark.parametrize("name", PRODUCTS)
def test_on_the_first_generation_operands_are_float16_and_sums_float32(first, name):
    product = PRODUCTS[name]
    y = product(lambda t: t, A.npu(), B.npu(), C.npu()).cpu()
    assert torch.equal(y, product(fp16, A, B, C))


def test_views_are_rounded_like_any_tensor(b1):
    torch.npu.matmul.allow_hf32 = True
    wide = randn(40, 48)
    y = (wide.npu()[:, ::2].t() @ B.npu()).cpu()
    assert torch.equal(y, hf32(wide[:, ::2]).t() @ hf32(B))


def test_the_gradients_of_a_product_are_products_of_rounded_operands(b1):
    torch.npu.matmul.allow_hf32 = True
    a, b = A.npu().requires_grad_(), B.npu().requires_grad_()
    (a @ b).backward(C.npu())
    assert torch.equal(a.grad.cpu(), hf32(C) @ hf32(B).t())
    assert torch.equal(b.grad.cpu(), hf32(A).t() @ hf32(C))


def convolution_gradients(x, w, gradient, rounding):
    arguments = ([0], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
    return torch.ops.aten.convolution_backward(rounding(gradient), rounding(x), rounding(w), *arguments)[:2]


def npu_gradients(needs=(True, True, True)):
    x, w, b = (t.npu().requires_grad_(need) for t, need in zip((X, W, BIAS), needs, strict=True))
    gradient = randn(2, 4, 9, 9, seed=4)
    F.conv2d(x, w, b, padding=1).backward(gradient.npu())
    return gradient, [None if t.grad is None else t.grad.cpu() for t in (x, w, b)]


def test_the_gradients_of_a_convolution_are_rounded_and_its_bias_is_summed_as_it_is(b1):
    gradient, (by_x, by_w, by_b) = npu_gradients()
    expected = convolution_gradients(X, W, gradient, hf32)
    assert torch.equal(by_x, expected[0])
    assert torch.equal(by_w, expected[1])
    assert torch.equal(by_b, gradient.sum((0, 2, 3)))


@pytest.mark.parametrize("needs", [(True, False, False), (False, True, False), (False, False, True)])
def test_only_the_gradients_that_are_needed_are_there(b1, needs):
    _, everything = npu_gradients()
    _, some = npu_gradients(needs)
    for one, full, need in zip(some, everything, needs, strict=True):
        assert torch.equal(one, full) if need else one is None


def test_a_convolution_in_float16_comes_out_through_float16_and_its_weight_gradient_does_not(first):
    y = F.conv2d(X.npu(), W.npu(), BIAS.npu(), padding=1).cpu()
    assert torch.equal(y, fp16(F.conv2d(fp16(X), fp16(W), fp16(BIAS), padding=1)))
    gradient, (by_x, by_w, by_b) = npu_gradients()
    expected = convolution_gradients(X, W, gradient, fp16)
    assert torch.equal(by_x, fp16(expected[0]))
    assert torch.equal(by_w, expected[1])
    assert torch.equal(by_b, gradient.sum((0, 2, 3)))


def test_the_precision_mode_of_the_first_generation_keeps_products_float32_and_refuses_convolutions(first):
    torch.npu.set_option({"ACL_PRECISION_MODE": "must_keep_origin_dtype"})
    assert torch.equal((A.npu() @ B.npu()).cpu(), A @ B)
    with pytest.raises(RuntimeError, match="does not support FP32 for calculations when the cubeMathType is KEEP"):
        F.conv2d(X.npu(), W.npu())


def test_a_later_chip_told_to_compute_in_float16_brings_products_out_through_it(b1):
    torch.npu.set_option({"ACL_PRECISION_MODE": "allow_fp32_to_fp16"})
    assert torch.equal((A.npu() @ B.npu()).cpu(), fp16(fp16(A) @ fp16(B)))
    assert torch.equal(F.conv2d(X.npu(), W.npu()).cpu(), F.conv2d(hf32(X), hf32(W)))


@pytest.mark.parametrize(
    ("kind", "rounding"),
    [
        ("KEEP_DTYPE", lambda x: x),
        ("ALLOW_FP32_DOWN_PRECISION", hf32),
        ("USE_HF32", hf32),
        ("USE_FP32_ADD", lambda x: x),
    ],
)
def test_a_cube_math_type_goes_before_the_switch(b1, kind, rounding):
    torch.npu.matmul.allow_hf32 = True
    torch.npu.matmul.cube_math_type = _CubeMathType[kind]
    assert torch.equal((A.npu() @ B.npu()).cpu(), rounding(A) @ rounding(B))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", PRODUCTS)
def test_half_operands_are_summed_in_float32_and_rounded_once(b1, name, dtype):
    half = [t.to(dtype) for t in (A, B, C)]
    product = PRODUCTS[name]
    y = product(lambda t: t, *(t.npu() for t in half)).cpu()
    wide = product(lambda t: t, *(t.float() for t in half))
    assert (y.dtype, torch.equal(y, wide.to(dtype))) == (dtype, True)


def test_a_half_sum_does_not_stall_as_a_half_accumulator_would(b1):
    ones = torch.ones(1, 8, dtype=torch.float16)
    column = torch.tensor([2048.0, 1, 1, 1, 1, 1, 1, 1], dtype=torch.float16)[:, None]
    assert (ones.npu() @ column.npu()).item() == 2056  # 2055, to the nearest even half; added one by one it stays 2048


def test_half_convolutions_and_their_gradients_are_rounded_once(b1):
    x, w = X.half(), W.half()
    a, b = x.npu().requires_grad_(), w.npu().requires_grad_()
    y = F.conv2d(a, b, padding=1)
    gradient = randn(2, 4, 9, 9, seed=4).half()
    y.backward(gradient.npu())
    expected = convolution_gradients(x.float(), w.float(), gradient.float(), lambda t: t)
    assert torch.equal(y.cpu(), F.conv2d(x.float(), w.float(), padding=1).half())
    assert torch.equal(a.grad.cpu(), expected[0].half())
    assert torch.equal(b.grad.cpu(), expected[1].half())


def test_the_first_generation_refuses_operands_of_two_dtypes(first):
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.mm(A.npu().half(), B.npu())


def test_out_of_half_products_is_resized_and_filled(b1):
    out = torch.empty(3, dtype=torch.float16, device="npu")
    with pytest.warns(UserWarning, match="was resized"):
        torch.mm(A.half().npu(), B.half().npu(), out=out)
    assert torch.equal(out.cpu(), (A.half().float() @ B.half().float()).half())


def test_autocast_rounds_once_to_its_type(b1):
    layer = nn.Linear(40, 16)
    expected = F.linear(A.half().float(), layer.weight.half().float(), layer.bias.half().float()).half()
    with torch.no_grad(), torch.autocast("npu", dtype=torch.float16):
        assert torch.equal(layer.npu()(A.npu()).cpu(), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Conv1d(6, 4, 3),
        lambda: nn.Conv3d(6, 4, 3),
        lambda: nn.ConvTranspose2d(6, 4, 3, stride=2),
        lambda: nn.Conv2d(6, 6, 3, groups=6),
        lambda: nn.Conv2d(6, 4, 3, dilation=2, bias=False),
    ],
    ids=["1d", "3d", "transposed", "depthwise", "dilated"],
)
def test_every_kind_of_convolution_is_rounded(b1, make):
    torch.manual_seed(0)
    layer = make()
    dims = {nn.Conv1d: 1, nn.Conv3d: 3}.get(type(layer), 2)
    x = randn(2, 6, *[7] * dims)
    with torch.no_grad():
        expected_weight = hf32(layer.weight.detach())
        y = layer.npu()(x.npu()).cpu()
        layer.cpu().weight.copy_(expected_weight)
        assert torch.equal(y, layer(hf32(x)))


def test_an_empty_batch_is_convolved(b1):
    assert F.conv2d(torch.empty(0, 6, 9, 9, device="npu"), W.npu()).shape == (0, 4, 7, 7)


def test_attention_of_the_first_generation_is_made_of_rounded_products(first):
    q, k, v = (randn(1, 2, 8, 16, seed=seed) for seed in range(3))
    y = F.scaled_dot_product_attention(q.npu(), k.npu(), v.npu()).cpu()
    scale = 16**-0.25
    scores = fp16(q * scale) @ fp16(k.transpose(-2, -1) * scale)
    assert torch.allclose(y, fp16(scores.softmax(-1)) @ fp16(v), atol=1e-6)


def test_pooling_of_the_first_generation_is_computed_in_float16(first):
    x = randn(1, 3, 8, 8)
    assert torch.equal(F.avg_pool2d(x.npu(), 2).cpu(), fp16(F.avg_pool2d(fp16(x), 2)))
    assert torch.equal(F.max_pool2d(x.npu(), 2).cpu(), F.max_pool2d(fp16(x), 2))


def test_the_inference_chip_pools_maxima_in_float32():
    with jumar.emulate("Ascend310P3"):
        assert torch.equal(F.max_pool2d(X.npu(), 2).cpu(), F.max_pool2d(X, 2))
        assert torch.equal((A.npu() @ B.npu()).cpu(), fp16(A) @ fp16(B))


def test_what_is_not_the_matrix_units_work_keeps_the_cpus_kernel(b1):
    X.npu().div(3).mul(2)
    kernels = [PLANS[name].call for name in ("aten::div.Tensor", "aten::mul.Tensor")]
    assert [getattr(kernel, "__name__", "") for kernel in kernels] == ["call_boxed", "call_boxed"]


def test_a_convolution_of_signals_without_overlap_is_a_matrix_product_in_float32(b1):
    signal, weight = randn(2, 1, 64), randn(3, 1, 16, seed=1)
    found = F.conv1d(signal.npu(), weight.npu(), stride=16).cpu()
    torch.testing.assert_close(found, F.conv1d(signal, weight, stride=16), atol=1e-6, rtol=1e-6)
    overlapping = F.conv1d(signal.npu(), weight.npu(), stride=8).cpu()
    torch.testing.assert_close(overlapping, F.conv1d(hf32(signal), hf32(weight), stride=8))


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors:UserWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("num_dims", [1, 2, 3])
def test_a_convolution_of_no_channels_has_gradients_of_zeros(num_dims, bias, dtype):
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[num_dims - 1]
    with emulate(soc="Ascend910B1"):
        module = kind(0, 8, 3, padding=1, bias=bias, dtype=dtype).npu()
        x = torch.zeros(2, 0, *[5] * num_dims, device="npu", dtype=dtype, requires_grad=True)
        module(x).sum().backward()
    assert x.grad.shape == x.shape
    assert [p.grad.tolist() for p in module.parameters()] == [torch.zeros_like(p).tolist() for p in module.parameters()]
