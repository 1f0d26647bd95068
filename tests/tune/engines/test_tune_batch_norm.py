"""Our batch normalisation where PyTorch's own may be used, too: double backward, other default dtypes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar.base.native import compiler
from jumar.tune.engines.training.batch_norm import batch_norm

needs_compiler = pytest.mark.skipif(not compiler(), reason="our kernels need a C++ compiler")


def penalty(norm: Callable[..., torch.Tensor], layer: nn.BatchNorm2d) -> list[torch.Tensor]:
    """Return the gradients of a penalty on a gradient."""
    image = torch.linspace(-2, 3, 2 * 3 * 16).cos().reshape(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    image.requires_grad_()
    (found,) = torch.autograd.grad(norm(image).pow(3).sum(), image, create_graph=True)
    return list(torch.autograd.grad(found.square().sum(), [image, *layer.parameters()]))


@needs_compiler
def test_our_normalisation_can_be_differentiated_twice() -> None:
    layer = nn.BatchNorm2d(3)
    expected = penalty(lambda image: torch.relu(layer(image)), layer)
    actual = penalty(lambda image: batch_norm(image, None, None, layer.weight, layer.bias, 0.1, 1e-5, True), layer)
    assert all(torch.allclose(one, other, rtol=1e-3, atol=1e-4) for one, other in zip(expected, actual, strict=True))


@needs_compiler
def test_our_normalisation_is_in_float32_whatever_the_default_dtype_is() -> None:
    x = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    ones, zeros, mean, variance = torch.ones(3), torch.zeros(3), torch.zeros(3), torch.ones(3)
    torch.set_default_dtype(torch.float64)
    try:
        out = batch_norm(x, mean, variance, ones, zeros, 1.0, 1e-5, False)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.allclose(out, functional.batch_norm(x, None, None, training=True), atol=1e-5)
    assert torch.allclose(mean, x.mean((0, 2, 3)), atol=1e-6)


_FEWER_THREADS = """
import torch
from torch.nn import functional
from jumar.tune.engines.training.batch_norm import batch_norm

torch.manual_seed(0)
torch.set_num_threads(4)
x = torch.randn(8, 5, 16, 16).contiguous(memory_format=torch.channels_last).requires_grad_()
ones, zeros = torch.ones(5), torch.zeros(5)
torch.empty_like(x).fill_(7)  # what memory that nothing writes to would hold
actual = batch_norm(x, None, None, ones, zeros, 0.1, 1e-5, True)
expected = functional.relu(functional.batch_norm(x, None, None, ones, zeros, True))
assert torch.get_num_threads() == 4
assert torch.allclose(actual, expected, atol=1e-5)
pairs = zip(torch.autograd.grad(actual, x, x.detach()), torch.autograd.grad(expected, x, x.detach()))
assert all(torch.allclose(*pair, atol=1e-4) for pair in pairs)
"""


@needs_compiler
def test_our_normalisation_is_whole_where_fewer_threads_are_given_than_asked_for() -> None:
    environment = os.environ | {"OMP_THREAD_LIMIT": "2"}
    subprocess.run([sys.executable, "-c", _FEWER_THREADS], check=True, env=environment, timeout=120)


@needs_compiler
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_statistics_of_what_is_not_finite_are_none_as_those_of_pytorch_are(value: float) -> None:
    x = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    x[1, 1, 2, 3] = value
    ones, zeros, mean, variance = torch.ones(3), torch.zeros(3), torch.zeros(3), torch.ones(3)
    out = batch_norm(x, mean, variance, ones, zeros, 0.1, 1e-5, False)
    expected = functional.batch_norm(x, zeros.clone(), (known := torch.ones(3)), training=True)
    assert torch.equal(out.isnan(), expected.isnan())
    assert torch.equal(variance.isnan(), known.isnan())
