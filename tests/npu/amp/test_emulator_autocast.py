"""`torch.autocast("npu")` and gradient scaling."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar.device import DevicePlan, activate
from jumar.npu.amp import autocast_kernels as autocast
from jumar.operators import listed

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

HALF, SINGLE = torch.float16, torch.float32


def header_list(macro: str) -> list[str]:
    """Names in a cast list of the installed PyTorch's own header."""
    text = (Path(torch.__file__).parent / "include/ATen/autocast_mode.h").read_text(encoding="utf-8")
    body = text[text.index(f"#define {macro}(_)") :]
    body = body[: re.search(r"[^\\]\n\s*\n", body).start() + 1]
    return [
        name + (f".{overload}" if overload else "") for name, overload in re.findall(r"_\((\w+)(?:, (\w+))?\)", body)
    ]


@pytest.mark.parametrize(
    ("macro", "names"),
    [
        ("AT_FORALL_LOWER_PRECISION_FP", listed("autocast_lower_precision")),
        ("AT_FORALL_FP32", listed("autocast_float32")),
        ("AT_FORALL_FP32_SET_OPT_DTYPE", autocast.FLOAT32_RESULT),
        ("AT_FORALL_PROMOTE", listed("autocast_promote")),
    ],
)
@pytest.mark.skipif(
    [int(part) for part in torch.__version__.split(".")[:2]] < [2, 13], reason="the lists are those of torch 2.13"
)
def test_the_lists_are_pytorchs(macro, names):
    assert sorted(header_list(macro)) == sorted(names)


@pytest.mark.parametrize(
    ("call", "dtype"),
    [
        (lambda x: x @ x, HALF),
        (lambda x: functional.linear(x, x, x[0]), HALF),
        (lambda x: nn.Conv2d(1, 2, 2).npu()(x[None, None]), HALF),
        (lambda x: nn.LSTM(4, 3).npu()(x)[0], HALF),
        (lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None]), HALF),
        (lambda x: (x @ x).exp(), SINGLE),
        (lambda x: functional.layer_norm(x @ x, (4,)), SINGLE),
        (lambda x: functional.mse_loss(x @ x, x @ x), SINGLE),
        (lambda x: functional.cross_entropy(x @ x, torch.zeros(4, dtype=torch.long, device="npu")), SINGLE),
        (lambda x: (x @ x).softmax(-1), SINGLE),
        (lambda x: (x @ x).sum(), SINGLE),
        (lambda x: (x @ x).sum(0, dtype=HALF), HALF),
        (lambda x: (x @ x).norm(), SINGLE),
        (lambda x: (x @ x).norm(dim=1), SINGLE),
        (lambda x: torch.addcmul(x @ x, x @ x, x), SINGLE),
        (lambda x: torch.addcmul(x @ x, x @ x, x @ x), HALF),
        (lambda x: (x @ x).relu(), HALF),
        (lambda x: x.double() @ x.double(), torch.float64),
    ],
)
def test_operators_run_in_the_type_of_their_list(call, dtype):
    x = torch.rand(4, 4, device="npu")
    with torch.autocast("npu", dtype=HALF):
        assert call(x).dtype == dtype


def test_blocks_nest_and_can_be_switched_off():
    x = torch.rand(2, 2, device="npu")
    with torch.autocast("npu"):
        assert (x @ x).dtype == HALF
        with torch.autocast("npu", enabled=False):
            assert (x @ x).dtype == SINGLE
        with torch.npu.amp.autocast(dtype=torch.bfloat16):
            assert (x @ x).dtype == torch.bfloat16
    assert (x @ x).dtype == SINGLE


def test_cpu_tensors_are_left_alone():
    with torch.autocast("npu"):
        assert (torch.rand(2, 2) @ torch.rand(2, 2)).dtype == SINGLE


def test_a_parameter_is_cast_once_a_block_and_afresh_in_the_next():
    layer = nn.Linear(2, 2, bias=False).npu()
    x = torch.ones(1, 2, device="npu")
    with torch.autocast("npu"):
        first = layer(x)
        num_cached = len(autocast._cache)
        layer(x)
        assert (num_cached, len(autocast._cache)) == (1, 1)
    assert not autocast._cache
    with torch.no_grad():
        layer.weight.mul_(2)
    with torch.autocast("npu"):
        assert torch.allclose(layer(x), first * 2)


def test_gradients_come_back_in_the_parameters_type():
    layer = nn.Linear(3, 2).npu()
    with torch.autocast("npu", dtype=torch.bfloat16):
        layer(torch.ones(4, 3, device="npu")).sum().backward()
    assert layer.weight.grad.dtype == SINGLE


def test_binary_cross_entropy_is_refused_and_mixed_halves_too():
    x = torch.rand(2, 2, device="npu")
    with torch.autocast("npu"):
        with pytest.raises(RuntimeError, match="are unsafe to autocast"):
            functional.binary_cross_entropy(x, x)
        with pytest.raises(RuntimeError, match="Unexpected floating ScalarType"):
            torch.addcmul(x.half(), x.half(), x.bfloat16())


def test_scaling_skips_steps_with_infinities_and_adapts():
    layer = nn.Linear(2, 1, bias=False).npu()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("npu", init_scale=4.0, growth_interval=1)
    x = torch.ones(1, 2, device="npu")
    before = layer.weight.detach().clone()
    scaler.scale(layer(x).sum() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert (scaler.get_scale(), torch.equal(before, layer.weight)) == (2.0, True)
    optimizer.zero_grad()
    scaler.scale(layer(x).sum()).backward()
    scaler.unscale_(optimizer)
    assert layer.weight.grad.tolist() == [[1.0, 1.0]]
    scaler.step(optimizer)
    scaler.update()
    assert (scaler.get_scale(), torch.equal(before, layer.weight)) == (4.0, False)


def test_the_devices_own_scaler_can_keep_its_scale():
    scaler = torch.npu.amp.GradScaler(init_scale=8.0, growth_interval=1, dynamic=False)
    parameter = nn.Parameter(torch.ones(1, device="npu"))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler.scale(parameter.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert (scaler.get_scale(), parameter.item()) == (8.0, 0.0)


def test_custom_functions_can_name_their_type():
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="npu", cast_inputs=torch.float32)
        def forward(ctx, x):
            assert not torch.is_autocast_enabled("npu")
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="npu")
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(2, device="npu", requires_grad=True)
    with torch.autocast("npu"):
        y = Double.apply(x.half())
    assert y.dtype == SINGLE
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]
