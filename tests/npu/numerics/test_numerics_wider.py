"""Dtypes that the NPU computes with and PyTorch's CPU kernels do not."""

import pytest
import torch
from torch.nn import functional

from jumar.device import DevicePlan, activate, emulate
from jumar.npu.core.versions.registration import takes_python_backends

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

HALVES = (torch.float16, torch.bfloat16)


@pytest.mark.parametrize("dtype", HALVES)
def test_pooling_of_volumes_in_half_trains(dtype):
    values = torch.randn(2, 3, 4, 4, 4).to(dtype)
    on_npu, reference = values.npu().requires_grad_(), values.float().requires_grad_()
    pooled, expected = functional.avg_pool3d(on_npu, 2), functional.avg_pool3d(reference, 2)
    pooled.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(pooled.detach().cpu(), expected.detach().to(dtype))
    torch.testing.assert_close(on_npu.grad.cpu(), reference.grad.to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_antialiased_resizing_in_half_is_rounded_once(dtype):
    image = torch.rand(1, 3, 8, 8).to(dtype)
    resized = functional.interpolate(image.npu(), size=(4, 4), mode="bilinear", antialias=True)
    expected = functional.interpolate(image.float(), size=(4, 4), mode="bilinear", antialias=True)
    assert torch.equal(resized.cpu(), expected.to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_a_sum_clamped_at_zero_takes_halves(dtype):
    x, y = torch.tensor([1.0, 2.0], dtype=dtype).npu(), torch.tensor([2.0, -3.0], dtype=dtype).npu()
    assert torch._add_relu(x, y, alpha=2).tolist() == [5.0, 0.0]
    assert torch._add_relu_(x, y).tolist() == x.tolist() == [3.0, 0.0]


def test_an_output_in_half_is_written():
    values = torch.rand(1, 1, 4, 4, 4).half()
    out = torch.empty(1, 1, 2, 2, 2, dtype=torch.float16, device="npu")
    torch._C._nn.avg_pool3d(values.npu(), [2, 2, 2], out=out)
    assert torch.equal(out.cpu(), functional.avg_pool3d(values.float(), 2).half())


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_integers_are_counted_in_their_own_dtype(dtype):
    experts = torch.tensor([0, 2, 2, 3], dtype=dtype)
    assert torch.equal(torch.histc(experts.npu(), 4, 0, 3).cpu(), torch.tensor([1, 0, 2, 1], dtype=dtype))


def test_what_falls_back_to_the_host_keeps_the_limits_of_the_cpu():
    scores, labels = torch.randn(2, 3).half().npu(), torch.tensor([0, 2]).npu()
    with (
        emulate("Ascend910B1", numerics="strict", unsupported="fallback"),
        pytest.raises(
            NotImplementedError if takes_python_backends() else RuntimeError, match="not implemented for 'Half'"
        ),
    ):
        functional.multi_margin_loss(scores, labels)


@pytest.mark.parametrize("name", ["_softmax", "_log_softmax"])
def test_softmax_takes_half_and_gives_float32(name):
    values, seed = torch.randn(2, 5).half(), torch.randn(2, 5)
    forward, backward = getattr(torch.ops.aten, name), getattr(torch.ops.aten, f"{name}_backward_data")
    found, expected = forward(values.npu(), 1, True), forward(values.float(), 1, False)
    assert torch.equal(found.cpu(), expected)
    gradient = backward(seed.npu(), found, 1, torch.float16)
    assert torch.equal(gradient.cpu(), backward(seed, expected, 1, torch.float32).half())
    with pytest.raises(RuntimeError, match="half to float conversion is not supported"):
        forward(values.float().npu(), 1, True)


@pytest.mark.parametrize("numerics", ["strict", "exact"])
def test_hardsigmoid_takes_int32_and_gives_it(numerics):
    x = torch.arange(-6, 7, dtype=torch.int32)
    expected = functional.hardsigmoid(x.float()).int()
    with emulate(soc="Ascend910B1", numerics=numerics):
        found = [functional.hardsigmoid(x.npu()), functional.hardsigmoid(x.npu(), inplace=True)]
    assert [item.dtype for item in found] == [torch.int32] * 2
    assert all(torch.equal(item.cpu(), expected) for item in found)
