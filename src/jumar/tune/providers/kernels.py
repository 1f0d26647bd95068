"""Impl and Schedule: Jumar's own kernels for single operators, as the engine sets them and in other ways."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.tune.engines.kernels import Kernels
from jumar.tune.engines.kernels.compiler import widths
from jumar.tune.machine import Machine
from jumar.tune.policy import Policy
from jumar.tune.providers.engine import EngineProvider
from jumar.tune.task import Task

PRODUCTS = frozenset({"mm", "addmm", "matmul", "linear"})
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

    They compute the operator themselves, whoever computed it before.
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
    if task.base in PRODUCTS:
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
