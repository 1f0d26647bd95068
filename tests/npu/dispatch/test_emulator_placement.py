"""Tensors of different devices meet: the errors PyTorch gives for CUDA, and what CUDA allows."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

AT_LEAST_TWO = "^Expected all tensors to be on the same device, but found at least two devices, npu:0 and cpu!$"


@pytest.mark.parametrize(
    "call",
    [
        lambda x, c: x + c,
        lambda x, c: c + x,
        lambda x, c: x.mul_(c),
        lambda x, c: torch.add(x, 1, out=torch.empty(2, 2)),
        lambda x, c: torch.where(x > 0, x, c),
        lambda x, c: torch.lerp(x, c, 0.5),
        functional.mse_loss,
        lambda x, c: x == c,
    ],
)
def test_pointwise_operators(call):
    with pytest.raises(RuntimeError, match=AT_LEAST_TWO):
        call(torch.ones(2, 2, device="npu"), torch.ones(2, 2))


@pytest.mark.parametrize(
    ("call", "argument", "method"),
    [
        (
            torch.mm,
            "mat2 is on cpu, different from other tensors on npu:0",
            "wrapper_PrivateUse1_mm",
        ),
        (
            lambda x, c: torch.mm(c, x),
            "mat2 is on npu:0, different from other tensors on cpu",
            "wrapper_PrivateUse1_mm",
        ),
        (lambda x, c: torch.cat([x, c]), "tensors is on cpu", "wrapper_PrivateUse1_cat"),
        (lambda x, c: functional.linear(x, c, c[0]), "is on", "wrapper_PrivateUse1_addmm"),
        (
            lambda x, c: functional.layer_norm(x, (2,), c[0]),
            "weight is on cpu",
            "wrapper_PrivateUse1__native_layer_norm",
        ),
        (lambda x, c: functional.embedding(c[0].long(), x), "index", "wrapper_PrivateUse1__"),
    ],
)
def test_other_operators_name_the_argument(call, argument, method):
    with pytest.raises(RuntimeError) as caught:
        call(torch.ones(2, 2, device="npu"), torch.ones(2, 2))
    text = str(caught.value)
    assert text.startswith("Expected all tensors to be on the same device, but got ")
    assert argument in text
    assert f"(when checking argument in method {method}" in text


def test_a_convolution_with_weights_left_behind():
    expected = r"Input type \(torch.npu.FloatTensor\) and weight type \(torch.FloatTensor\) should be the same"
    with pytest.raises(RuntimeError, match=expected):
        torch.nn.Conv2d(3, 4, 3)(torch.ones(1, 3, 8, 8, device="npu"))


def test_zero_dim_cpu_tensors_are_allowed_where_cuda_allows_them():
    x = torch.ones(2, device="npu")
    scalar = torch.tensor(3.0)
    assert (x * scalar).tolist() == [3, 3]
    assert (scalar + x).tolist() == [4, 4]
    assert x.clone().masked_fill_(x > 0, scalar).tolist() == [3, 3]
    assert torch.where(x > 0, scalar, x).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="Expected all tensors"):
        functional.embedding(torch.tensor(0), torch.ones(2, 2, device="npu"))


def test_indices_may_be_on_the_cpu_but_not_the_indexed_tensor():
    x = torch.arange(3.0, device="npu")
    assert x[torch.tensor([2])].tolist() == [2]
    x[torch.tensor([0])] = torch.tensor(5.0)
    assert x.tolist() == [5, 1, 2]
    with pytest.raises(RuntimeError, match=r"indices should be either on cpu or on the same device .*\(cpu\)"):
        torch.arange(3.0)[torch.tensor([2], device="npu")]


def test_copy_crosses_devices_both_ways():
    x, c = torch.zeros(2, device="npu"), torch.ones(2)
    assert x.copy_(c).tolist() == [1, 1]
    assert c.copy_(x.add_(1), non_blocking=True).tolist() == [2, 2]
    gradient_source = torch.ones(2, requires_grad=True)
    torch.zeros(2, device="npu").copy_(gradient_source).sum().backward()
    assert gradient_source.grad.device.type == "cpu"


def test_a_generator_of_another_device_is_refused():
    with pytest.raises(RuntimeError, match="Expected a 'npu' device type for generator but found 'cpu'"):
        torch.randn(2, device="npu", generator=torch.Generator())
