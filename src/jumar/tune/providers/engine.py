"""Impl: engines beside PyTorch's own, for single operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from jumar.operators.flops import flops
from jumar.tune.engines.base import Engine, Settings, Site
from jumar.tune.engines.kernels.engine import Kernels
from jumar.tune.engines.kernels.library import widths
from jumar.tune.engines.onnxruntime.engine import OnnxRuntime
from jumar.tune.engines.openvino.engine import OpenVino
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Function, Policy, PolicyKind, Task
from jumar.tune.providers.base import Provider

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
    shapes = [spec.shape for spec in specs]
    # A convolution has no more positions in its output than in its input.
    return max(traffic_us, (flops(task.operator, shapes, shapes[:1]) or 0) / SLOW_FLOPS_PER_US)


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


KERNEL_PRODUCTS = frozenset({"mm", "addmm", "matmul", "linear"})
CONVOLUTIONS = frozenset({"convolution", "conv2d"})
PANELS = (1, 2, 3, 4)
TILES = (2, 4)


class KernelsOperator(EngineProvider):
    """Convolutions, depthwise ones among them, products with a constant matrix, and GELU by tanh."""

    name = "kernels"
    engine = Kernels()
    call_us = 10.0

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer the widest vectors, and whatever else is fastest when it is built."""
        if not _is_taken(task):
            return []
        return [
            self.policy(**dict(policy.settings), vector=widths()[0]) for policy in super().candidates(task, machine)
        ]


class KernelsSchedule(KernelsOperator):
    """The same kernels with other vectors, panels (how far the inner loop is unrolled) and tiles.

    They compute the operator themselves, in place of what computed it before.
    """

    name = "kernels_schedule"
    kind = "Schedule"

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer narrower vectors, each width of panels, Winograd's tiles for 3x3 convolutions, and one image a time."""
        return [
            self.policy(**{**policy.settings, **other})
            for policy in super().candidates(task, machine)
            for other in _others(task)
        ]


def _is_taken(task: Task) -> bool:
    """Tell whether the kernels have the operator: its matrix or filter constant, its rows not stacked."""
    tensors = list(task.tensors.values())
    if task.base == "gelu":
        return task.arguments.get("approximate") == "tanh"
    if task.base in KERNEL_PRODUCTS:
        matrices = [spec for spec in tensors if len(spec.shape) == 2]
        return len(matrices) == 2 and max(len(spec.shape) for spec in tensors) == 2 and matrices[1].constant
    return task.base in CONVOLUTIONS and len(tensors[0].shape) == 4 and tensors[1].constant


def _others(task: Task) -> list[dict[str, int]]:
    others: list[dict[str, int]] = [{"vector": width} for width in widths()[1:]]
    if task.base == "gelu":
        return others
    others += [{"panel": panel} for panel in PANELS]
    first, *rest = task.tensors.values()
    if task.base in CONVOLUTIONS:
        if rest[0].shape[2:] == (3, 3) and rest[0].shape[1] > 1:
            others += [{"winograd": tile} for tile in TILES]
        if first.shape[0] > 1:
            others.append({"images": 1})
    return others
