"""`torch_npu.testing.common_methods_invocations`: sample inputs of operators, after PyTorch's own."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing import make_tensor

__all__ = ["sample_inputs_median_custom", "sample_inputs_normal_tensor_second"]

_NORMAL: Any = (([3, 4], 0.3, {}), ([3, 55], 0, {}), ([5, 6, 7, 8], [5, 6, 7, 8], {}))
"""Shape of the means; standard deviation, or shape of them; keywords."""


def _own() -> Any:
    """Return PyTorch's module of samples, which takes a second to load."""
    from torch.testing._internal import common_methods_invocations

    return common_methods_invocations


def sample_inputs_normal_tensor_second(
    self: Any, device: Any, dtype: torch.dtype, requires_grad: bool, **kwargs: Any
) -> Any:
    """Return samples of `torch.normal` whose second argument is a number or a tensor."""
    return _own().sample_inputs_normal_common(self, device, dtype, requires_grad, _NORMAL, **kwargs)


def sample_inputs_median_custom(
    self: Any, device: Any, dtype: torch.dtype, requires_grad: bool, **kwargs: Any
) -> Iterator[Any]:
    """Yield samples of `torch.median`: empty tensors, then those of every reduction."""
    make = functools.partial(make_tensor, device=device, dtype=dtype, requires_grad=requires_grad)
    for shape in ((2, 0), (0, 2)):
        yield _own().SampleInput(make(shape))
    yield from _own().sample_inputs_reduction(self, device, dtype, requires_grad, **kwargs)
