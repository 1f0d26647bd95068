"""Format: operands copied to contiguous memory first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jumar.operators import has
from jumar.tune.engines.base import Site
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Function, Policy, Task, TensorSpec, contiguous_stride
from jumar.tune.providers.base import Provider


class Contiguous(Provider):
    """Row-major copies of the inputs that were recorded with other strides (transposed, sliced, expanded)."""

    name = "contiguous"
    kind = "Format"
    devices = frozenset({"cpu", "cuda", "npu"})

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer it where an input is not contiguous."""
        strided = any(spec.stride != contiguous_stride(spec.shape) for spec in task.tensors.values())
        return [self.policy()] if strided else []

    def apply(self, policy: Policy, function: Function, example: Sequence[Any], site: Site) -> Function:
        """Copy the inputs, and give the outputs the strides they have without the copies."""
        from jumar.tune.providers.borders import between_borders

        return between_borders(function, lambda tensor: tensor.contiguous(), site)


class ChannelsLast(Provider):
    """NHWC (and NDHWC) for the 4- and 5-dimensional tensors of spatial operators, weights included."""

    name = "channels_last"
    kind = "Format"
    devices = frozenset({"cpu", "cuda"})

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer it where a spatial operator has an input whose channels are not last already."""
        if not has(task.operator, "channels_last") or not any(map(_channels_first, task.tensors.values())):
            return []
        return [self.policy()]

    def apply(self, policy: Policy, function: Function, example: Sequence[Any], site: Site) -> Function:
        """Convert there and back around `function`."""
        import torch

        from jumar.tune.providers.borders import between_borders

        formats = {4: torch.channels_last, 5: torch.channels_last_3d}

        def convert(tensor: torch.Tensor) -> torch.Tensor:
            layout = formats.get(tensor.dim())
            return tensor if layout is None else tensor.contiguous(memory_format=layout)

        return between_borders(function, convert, site)


def _channels_first(spec: TensorSpec) -> bool:
    """Tell whether a 4- or 5-dimensional tensor of more than one channel and pixel has other strides than NHWC."""
    if len(spec.shape) not in {4, 5} or spec.shape[1] == 1 or spec.shape[2:] == (1,) * (len(spec.shape) - 2):
        return False
    return spec.stride[1] != 1
