"""Halves are summed in float32 and rounded once, in strict numerics; `exact` numerics give the CPU's bits."""

import pytest
import torch
from torch.nn import functional

from jumar.device import DevicePlan, activate, emulate
from jumar.npu.numerics.halves import calculates_in_float32

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

HALVES = (torch.float16, torch.bfloat16)
LABELS = torch.arange(300) % 7
GRID = torch.linspace(-1, 1, 2 * 9 * 9 * 2).reshape(2, 9, 9, 2).half().bfloat16()
PLACES = torch.arange(300) % 5

CALLS = {
    "nll_loss": lambda x: functional.nll_loss(x.reshape(300, 7), LABELS.to(x.device)),
    "nll_loss2d": lambda x: functional.nll_loss(x.reshape(1, 7, 300, 1), LABELS.reshape(1, 300, 1).to(x.device)),
    "binary_cross_entropy_with_logits": lambda x: functional.binary_cross_entropy_with_logits(x, x.sign().relu()),
    "smooth_l1_loss": lambda x: functional.smooth_l1_loss(x, x.flip(0)),
    "mse_loss": lambda x: functional.mse_loss(x, x.flip(0)),
    "batch_norm": lambda x: functional.batch_norm(x.reshape(10, 7, 30), None, None, training=True),
    "group_norm": lambda x: functional.group_norm(x.reshape(10, 6, 35), 3),
    "layer_norm": lambda x: functional.layer_norm(x.reshape(30, 70), (70,)),
    "grid_sampler_2d": lambda x: functional.grid_sample(
        x.reshape(2, 21, 10, 5), GRID.to(x), align_corners=False, mode="bilinear"
    ),
    "upsample_linear1d": lambda x: functional.interpolate(x.reshape(1, 21, 100), scale_factor=1.7, mode="linear"),
    "upsample_bicubic2d": lambda x: functional.interpolate(x.reshape(1, 21, 10, 10), scale_factor=1.3, mode="bicubic"),
    "avg_pool2d": lambda x: functional.avg_pool2d(x.reshape(21, 10, 10), 3),
    "adaptive_avg_pool2d": lambda x: functional.adaptive_avg_pool2d(x.reshape(21, 10, 10), 3),
    "prod": lambda x: x.clamp(0.875, 1.125).prod(),
    "cumprod": lambda x: x.clamp(0.875, 1.125).cumprod(0),
    "cumsum": lambda x: x.cumsum(0),
    "index_add": lambda x: torch.zeros(5, 7, dtype=x.dtype, device=x.device).index_add(
        0, PLACES.to(x.device), x.reshape(300, 7)
    ),
    "scatter_add_": lambda x: torch.zeros(5, dtype=x.dtype, device=x.device).scatter_add_(
        0, PLACES.repeat(7).to(x.device), x
    ),
    "index_put_": lambda x: torch.zeros(5, 7, dtype=x.dtype, device=x.device).index_put_(
        (PLACES.to(x.device),), x.reshape(300, 7), accumulate=True
    ),
    "embedding_bag": lambda x: functional.embedding_bag(PLACES.reshape(10, 30).to(x.device), x.reshape(300, 7)),
    "std": lambda x: x.std(),
    "norm": lambda x: x.reshape(300, 7).norm(dim=0),
    "logsumexp": lambda x: x.logsumexp(0),
    "dot": lambda x: torch.dot(x, x.flip(0)),
    "trace": lambda x: x[:400].reshape(20, 20).trace(),
    "fold": lambda x: functional.fold(x[:1890].reshape(1, 9 * 21, 10).narrow(2, 0, 9), (5, 5), 3),
    "softmax": lambda x: x.softmax(0),
    "add": lambda x: torch.add(x, x.flip(0), alpha=3.3),
    "add of a number": lambda x: torch.add(x, 1.7, alpha=3.3),
    "add_": lambda x: x.clone().add_(x.flip(0), alpha=3.3),
    "add out=": lambda x: torch.add(x, x.flip(0), alpha=3.3, out=torch.empty(0, dtype=x.dtype, device=x.device)),
    "sub of few": lambda x: x[:7].sub(x[7:14], alpha=5),
    "rsub": lambda x: torch.rsub(x, x.flip(0), alpha=3.3),
    "_foreach_add": lambda x: torch._foreach_add([x[:7]], [x[7:14]], alpha=5)[0],
    "rsqrt of few": lambda x: x[:7].abs().rsqrt(),
    "pow": lambda x: x.abs().pow(0.3),
    "cube": lambda x: x.pow(3),
    "erfinv": lambda x: (x / 16).erfinv(),
    "logit": lambda x: x.clamp(0.0625, 0.9375).logit(),
    "xlogy": lambda x: torch.xlogy(x, x.flip(0).abs()),
    "sigmoid_backward": lambda x: torch.ops.aten.sigmoid_backward(x, x.flip(0).clamp(0, 1)),
    "tanh_backward": lambda x: torch.ops.aten.tanh_backward(x, x.flip(0).clamp(-1, 1)),
    "out=": lambda x: torch.sum(x.reshape(300, 7), 0, out=torch.empty(0, dtype=x.dtype, device=x.device)),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", CALLS)
def test_a_calculation_with_halves_is_rounded_once(name, dtype):
    call, values = CALLS[name], torch.randn(2100, generator=torch.Generator().manual_seed(3)).to(dtype)
    with emulate(soc="Ascend910B1"):
        found = call(values.npu())
    assert found.dtype is dtype
    assert torch.equal(found.cpu(), call(values.float()).to(dtype))


def test_operators_of_other_libraries_get_the_halves_that_they_were_given():
    x = torch.randn(3, 8).half()
    assert not calculates_in_float32("npu::npu_dynamic_quant_asymmetric")
    with emulate(soc="Ascend910B1"):
        scales = torch.ops.npu.npu_dynamic_quant_asymmetric(x.npu())[1]
    assert scales.dtype is torch.float32


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::nll_loss_forward", True),
        ("aten::native_batch_norm_backward", True),
        ("aten::sum.dim_IntList", True),
        ("aten::add.Tensor", True),
        ("aten::mul.Tensor", False),
        ("aten::mm", False),
        ("aten::convolution", False),
        ("aten::copy_", False),
        ("aten::bernoulli", False),
        ("acme::own", False),
    ],
)
def test_the_vocabulary_tells_which_operators_calculate(name, expected):
    assert calculates_in_float32(name) is expected


@pytest.mark.parametrize("form", ["new", "inplace"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [("addcdiv", "number"), ("addcdiv", "list"), ("addcdiv", "tensor"), ("addcmul", "number"), ("addcmul", "list")],
)
def test_lists_in_float16_are_rounded_step_by_step(name, kind, form):
    x, a, b = (torch.linspace(start, 7, 9).half() for start in (-60, 0.3, 1.7))
    factor = torch.tensor(0.73).half()
    part = a / b if name == "addcdiv" else a * b
    expected = x + part * factor
    value = {"number": factor.item(), "list": [factor.item()], "tensor": factor.reshape(1)}[kind]
    call = getattr(torch, f"_foreach_{name}" + ("_" if form == "inplace" else ""))
    with emulate(soc="Ascend910B1"):
        given = [x.npu()]
        found = call(given, [a.npu()], [b.npu()], value)
    assert torch.equal((given if form == "inplace" else found)[0].cpu(), expected)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_scalar_of_float32_does_not_widen_the_result_and_a_vector_does(dtype):
    x, y = torch.ones(7, dtype=dtype), torch.tensor(2.0)
    with emulate(soc="Ascend910B1"):
        found = [torch.add(x.npu(), other.npu(), alpha=3).dtype for other in (y, y.expand(7), y)]
    assert found == [dtype, torch.float32, dtype]


SHIFTED = {
    "add_": lambda x: x[1:].add_(x[:-1], alpha=2),
    "out=": lambda x: torch.cumsum(x[:-1], 0, out=x[1:]),
    "expanded": lambda x: x[:1].expand(6).sub_(1, alpha=2),
    "list": lambda x: torch._foreach_add_([x[1:]], [x[:-1]], alpha=2),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_arguments_that_overlap_are_refused_in_halves_too(name):
    with emulate(soc="Ascend910B1"), pytest.raises(RuntimeError, match="unsupported operation"):
        SHIFTED[name](torch.ones(9).half().npu())


@pytest.mark.parametrize("form", ["new", "inplace"])
def test_a_difference_of_lists_in_float16_is_rounded_step_by_step(form):
    x, y = torch.linspace(-60, 7, 99).half(), torch.linspace(0.3, 7, 99).half()
    call = getattr(torch, "_foreach_sub" + ("_" if form == "inplace" else ""))
    with emulate(soc="Ascend910B1"):
        given = [x.npu()]
        found = call(given, [y.npu()], alpha=0.73)
    assert torch.equal((given if form == "inplace" else found)[0].cpu(), x - y * torch.tensor(0.73).half())
