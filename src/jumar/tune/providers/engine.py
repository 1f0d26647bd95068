"""Impl: engines beside PyTorch's own, for single operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from jumar.tune.engines.base import Engine, Settings, Site
from jumar.tune.engines.onnxruntime import OnnxRuntime
from jumar.tune.engines.openvino import OpenVino
from jumar.tune.errors import TuneError
from jumar.tune.machine import Machine
from jumar.tune.operators import ATTENTION, PRODUCTS
from jumar.tune.policy import Policy, PolicyKind
from jumar.tune.providers.base import Provider
from jumar.tune.task import Function, Task, TensorSpec

SLOW_FLOPS_PER_US = 20_000.0
SLOW_BYTES_PER_US = 4_000.0
"""What even a slow core does: a bound from above of what PyTorch needs for an operator."""
COMPUTES_IN = frozenset({"float32"})


class EngineProvider(Provider):
    """The operator as a graph of one node in another engine. Weights that are constant are packed by it once.

    The engine computes the operator itself: layouts chosen before are left aside. Offered only where the operator
    may take longer than a call of the engine.
    """

    kind: ClassVar[PolicyKind] = "Impl"
    engine: ClassVar[Engine]
    call_us: ClassVar[float]
    """What one call of the engine costs at least."""

    def unavailable(self, machine: Machine) -> str:
        """As the engine says."""
        return self.engine.unavailable(machine)

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer the engine's first settings, at its version."""
        if longest_us(task) < self.call_us or not _is_computed(task):
            return []
        return [self.policy(version=self.engine.version())]

    def apply(self, policy: Policy, function: Function, example: Sequence[Any], site: Site) -> Function:
        """Build the engine's function. Raises TuneError when the engine has another version, or refuses."""
        settings = dict(policy.settings)
        measured, here = settings.pop("version", ""), self.engine.version()
        if measured != here:
            raise TuneError(f"the policy was measured with {self.name} {measured} and this is {here}; tune again.")
        why = self.engine.unsupported(site.graph)
        if why:
            raise TuneError(f"{self.name} does not take the operator: {why}")
        return _as_operator(self.engine, site, settings, example, function)


class OnnxRuntimeOperator(EngineProvider):
    """ONNX Runtime."""

    name = "onnxruntime"
    engine = OnnxRuntime()
    call_us = 10.0


class OpenVinoOperator(EngineProvider):
    """OpenVINO."""

    name = "openvino"
    engine = OpenVino()
    call_us = 20.0


def longest_us(task: Task) -> float:
    """Return a bound from above of an operator's time on one slow core: its arithmetic, or its memory traffic."""
    specs = list(task.tensors.values())
    traffic_us = sum(3 * 8 * math.prod(spec.shape) for spec in specs) / SLOW_BYTES_PER_US
    return max(traffic_us, _num_flops(task, specs) / SLOW_FLOPS_PER_US)


def _num_flops(task: Task, specs: Sequence[TensorSpec]) -> float:
    """Return a bound from above of the operations of a product, convolution or attention; 0 for anything else."""
    sizes = [math.prod(spec.shape) for spec in specs]
    if task.base in PRODUCTS:
        matrices = [spec for spec in specs if len(spec.shape) > 1][-2:]
        if len(matrices) < 2:
            return 0.0
        left, right = matrices
        return 2.0 * math.prod(left.shape) * max(right.shape[-2:])
    if task.base == "convolution" and len(specs) > 1:
        pixels = math.prod(specs[0].shape[2:]) * specs[0].shape[0]
        return 2.0 * pixels * sizes[1]
    if task.base in ATTENTION and len(specs) > 1:
        return 4.0 * sizes[0] * specs[1].shape[-2]
    return 0.0


def _is_computed(task: Task) -> bool:
    return all(spec.dtype in COMPUTES_IN and 0 not in spec.shape for spec in task.tensors.values())


def _as_operator(
    engine: Engine, site: Site, settings: Settings, example: Sequence[Any], function: Function
) -> Function:
    """Return a function that gives what the operator gives: one tensor, or a tuple."""
    import torch

    single = isinstance(function(*example), torch.Tensor)
    run = engine.build(site, settings)
    if not single:
        return run

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        (output,) = run(*tensors)
        return output  # type: ignore[no-any-return]

    return call
