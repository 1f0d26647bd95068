"""Format: operands copied to contiguous memory first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jumar.tune.engines.base import Site
from jumar.tune.machine import Machine
from jumar.tune.policy import Policy
from jumar.tune.providers.base import Provider
from jumar.tune.task import Function, Task, contiguous_stride


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
