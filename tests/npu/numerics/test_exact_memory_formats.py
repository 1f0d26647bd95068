"""Exact numerics are the CPU's bits, and its strides, forward and backward, in every memory format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


def values(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


WEIGHT, BIAS = values(6), values(6) + 1
OPERATORS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "group_norm": (lambda x, w, b: F.group_norm(x, 3, w, b), (WEIGHT, BIAS)),
    "group_norm without a weight": (lambda x: F.group_norm(x, 2), ()),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (WEIGHT, BIAS)),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (WEIGHT, BIAS)),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[1:]), ()),
    "local_response_norm": (lambda x: F.local_response_norm(x, 2), ()),
    "conv2d": (F.conv2d, (values(4, 6, 3, 3), values(4))),
    "grouped conv2d": (lambda x, w: F.conv2d(x, w, groups=3), (values(6, 2, 3, 3),)),
    "conv_transpose2d": (F.conv_transpose2d, (values(6, 4, 3, 3),)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), ()),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), ()),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 3), ()),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 2), ()),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), ()),
    "bilinear": (lambda x: F.interpolate(x, size=7, mode="bilinear"), ()),
    "bicubic": (lambda x: F.interpolate(x, size=4, mode="bicubic", antialias=True), ()),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), (values(2, 4, 4, 2),)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(torch.cat([x, x], 1), 2), ()),
    "reflection": (lambda x: F.pad(x, (1, 1, 1, 1), "reflect"), ()),
    "prelu": (F.prelu, (WEIGHT,)),
    "softmax": (lambda x: F.softmax(x, 1), ()),
    "gelu": (F.gelu, ()),
    "silu": (F.silu, ()),
    "mean": (lambda x: x.mean((2, 3)), ()),
    "norm": (lambda x: x.norm(dim=1), ()),
    "cumsum": (lambda x: x.cumsum(1), ()),
    "unfold": (lambda x: F.unfold(x, 2), ()),
    "cross_entropy": (lambda x: F.cross_entropy(x, x.detach().argmax(1)), ()),
    "broadcast": (lambda x, w: x * w.view(1, -1, 1, 1) + x.sum(1, keepdim=True), (WEIGHT,)),
}
FORMATS = {
    "contiguous": lambda x: x,
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(0, 3).contiguous().transpose(0, 3),
    "a part": lambda x: torch.stack([x, x], 3)[:, :, :, 1],
}


def computed(function: Callable[..., Any], given: tuple[Tensor, ...], device: str, keep: Any) -> list[Tensor]:
    leaves = [item.detach().to(device, copy=True).requires_grad_() for item in given]
    result = function(*leaves)
    gradient = keep(values(*result.shape)) if result.dim() == 4 else values(*result.shape)
    result.backward(gradient.to(device, copy=True))
    return [result.detach(), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_gives_the_cpus_bits_and_strides(name, format):
    function, others = OPERATORS[name]
    given = (FORMATS[format](values(2, 6, 6, 6)), *others)
    reference = computed(function, given, "cpu", FORMATS[format])
    for expected, found in zip(reference, computed(function, given, "npu", FORMATS[format]), strict=True):
        assert found.stride() == expected.stride()
        assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last])
def test_group_norm_can_be_derived_twice(format):
    found = []
    for device in ("cpu", "npu"):
        x = values(2, 4, 3, 3).contiguous(memory_format=format).to(device).detach().requires_grad_()
        weight = values(4).to(device).requires_grad_()
        (first,) = torch.autograd.grad(F.group_norm(x, 2, weight).pow(3).sum(), x, create_graph=True)
        first.square().sum().backward()
        found.append((x.grad.cpu(), weight.grad.cpu()))
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
