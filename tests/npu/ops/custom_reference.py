"""Helpers of the tests of custom operators: run one on the npu and a plain reference on the CPU, compare both ways."""

from __future__ import annotations

import torch


def leaf(*shape, dtype=torch.float32, scale=1.0):
    """A random leaf that wants a gradient."""
    return (torch.randn(*shape, dtype=dtype) * scale).requires_grad_()


def on_npu(value):
    """The value with every tensor in it copied to the npu, as a leaf where it was one."""
    if isinstance(value, torch.Tensor):
        return value.detach().npu().requires_grad_(value.requires_grad)
    return type(value)(on_npu(item) for item in value) if isinstance(value, (list, tuple)) else value


def gradients(results, inputs, seed=7):
    """Gradients of the inputs for fixed random gradients of the results, on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    seeds = [torch.randn(r.shape, generator=generator).to(r.dtype).to(r.device) for r in results]
    found = torch.autograd.grad(results, inputs, seeds, allow_unused=True, materialize_grads=True)
    return [gradient.cpu() for gradient in found]


def same(operator, reference, *inputs, kept=None, **tolerances):
    """Assert that the operator on the npu gives what the reference gives on the CPU, and so do the gradients.

    kept: positions of the results to compare; all by default. Gradients flow through the floating-point ones.
    """
    there = on_npu(inputs)
    actual, expected = _listed(operator(*there)), _listed(reference(*inputs))
    if kept is not None:
        actual = [actual[i] for i in kept]
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected, strict=True):
        assert mine.device.type == "npu"
        torch.testing.assert_close(mine.cpu(), theirs, **tolerances)
    wanted = [item for item in inputs if isinstance(item, torch.Tensor) and item.requires_grad]
    if not wanted:
        return
    flowing = [i for i, item in enumerate(expected) if item.requires_grad]
    theirs = gradients([expected[i] for i in flowing], wanted)
    npu_leaves = [item for item in there if isinstance(item, torch.Tensor) and item.requires_grad]
    mine = gradients([actual[i] for i in flowing], npu_leaves)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, **tolerances)


def _listed(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]
