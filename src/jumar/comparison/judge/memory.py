"""`Memory`: what the steps of one rank hand on, such as running statistics and the noise of gradients."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jumar.comparison.judge.loss_scaling import LossScaling
from jumar.comparison.measure.tolerance import FLOAT32_EPSILON, NoiseFloor, epsilon
from jumar.comparison.model.calls import Call
from jumar.comparison.model.results import ArgumentDiff, OperatorDiff
from jumar.recording.schema import CallRow

OF_IMPLEMENTATION = frozenset({"foreach", "fused", "capturable", "differentiable", "params"})
"""Settings of an optimizer that choose how it computes, not what."""

Key = tuple[str, str, int, str]
"""Module path, operator, occurrence, name of the tensor."""


@dataclass(slots=True)
class Written:
    """A tensor that an operator wrote without returning it; the next step shows what."""

    diff: OperatorDiff
    """The comparison of the call that wrote it."""
    allowed: float
    """Relative difference that the call's inputs and the tensor's own difference before explain."""


@dataclass(frozen=True, slots=True)
class Optimizers:
    """The optimizer steps of both sides in one step of the training."""

    names: tuple[str, str] = ("", "")
    rate: float | None = None
    """Greatest learning rate of any group of either side; None when it was not recorded."""
    differences: tuple[ArgumentDiff, ...] = ()
    seqs: tuple[int | None, int | None] = (None, None)
    sources: tuple[str, str] = ("", "")


@dataclass(slots=True)
class Memory:
    """State of one rank's comparison that outlives a step."""

    floor: NoiseFloor | None = None
    """Measured; None to estimate it."""
    reduced: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By device type, operators of which a run may compute float32 products with fewer bits."""
    written: dict[Key, Written] = field(default_factory=dict)
    gradient_noise: dict[tuple[str, str], float] = field(default_factory=dict)
    """Greatest relative noise that the gradient of a parameter had in any step so far."""
    optimizers: Optimizers = field(default_factory=Optimizers)
    scaling: LossScaling = field(default_factory=lambda: LossScaling((), ()))
    num_steps: int = 0
    coarsest: float = 0.0
    """Coarsest epsilon in which either run calculates in this step."""
    _drift: dict[str, float] = field(default_factory=dict)
    _next_drift: dict[str, float] = field(default_factory=dict)

    def begin_step(self, reference: Sequence[CallRow], target: Sequence[CallRow]) -> None:
        """Read what the rows of a step say of it as a whole."""
        self.coarsest = coarsest_epsilon((*reference, *target))
        self._drift, self._next_drift = self._next_drift, {}
        self.scaling = LossScaling(reference, target)
        self.optimizers = optimizers_of(reference, target)
        self.num_steps += 1

    @property
    def is_first_step(self) -> bool:
        """Whether no step was compared before the one under way."""
        return self.num_steps <= 1

    def note_value(self, path: str, noise: float) -> None:
        """Note by how much a parameter of the module `path` differs after the step, relative to its own norm."""
        parts = path.split(".") if path else []
        for depth in range(len(parts) + 1):
            inside = ".".join(parts[:depth])
            self._next_drift[inside] = max(noise, self._next_drift.get(inside, 0.0))

    def drift(self, path: str) -> float:
        """Return the greatest relative difference of a parameter inside the module, as the step before left it."""
        return self._drift.get(path, 0.0)

    def remember(self, call: Call, name: str, diff: OperatorDiff, allowed: float) -> None:
        """Note a tensor that `call` writes without returning it."""
        self.written[key_of(call, name)] = Written(diff, allowed)

    def recall(self, call: Call, name: str) -> Written | None:
        """Return who wrote the tensor in the step before."""
        return self.written.pop(key_of(call, name), None)

    def add_gradient_noise(self, parameter: tuple[str, str], noise: float) -> float:
        """Return the greatest noise of the parameter's gradient so far, this step's included."""
        greatest = max(noise, self.gradient_noise.get(parameter, 0.0))
        self.gradient_noise[parameter] = greatest
        return greatest


def coarsest_epsilon(rows: Iterable[CallRow]) -> float:
    """Return the coarsest epsilon in which a run calculates, from the outputs of its calls."""
    dtypes = {tensor.dtype for row in rows for tensor in row.outputs} | {row.autocast for row in rows}
    return max((epsilon(dtype) for dtype in dtypes), default=0.0) or FLOAT32_EPSILON


def key_of(call: Call, name: str) -> Key:
    """Return what a tensor of a call is known by in the next step."""
    return call.path, call.operator, call.row.occurrence, name


def optimizers_of(reference: Iterable[CallRow], target: Iterable[CallRow]) -> Optimizers:
    """Return the optimizers of both sides and the settings in which they differ, group by group."""
    of_reference, of_target = ([row for row in rows if row.kind == "optimizer"] for rows in (reference, target))
    if not of_reference or not of_target:
        return Optimizers()
    differences: dict[str, ArgumentDiff] = {}
    rates: list[float] = []
    for first, second in zip(of_reference, of_target, strict=False):
        groups = groups_of(first), groups_of(second)
        rates += [float(group["lr"]) for side in groups for group in side if isinstance(group.get("lr"), int | float)]
        for one, other in zip(*groups, strict=False):
            for diff in _differences(one, other):
                differences.setdefault(diff.name, diff)
    return Optimizers(
        names=(of_reference[0].name, of_target[0].name),
        rate=max(rates, default=None),
        differences=tuple(differences.values()),
        seqs=(of_reference[0].seq, of_target[0].seq),
        sources=(of_reference[0].source, of_target[0].source),
    )


def groups_of(row: CallRow) -> list[dict[str, Any]]:
    """Return the settings of each parameter group of an optimizer's row, whose arguments list one value a group."""
    try:
        settings = json.loads(row.arguments or "{}")
    except json.JSONDecodeError:
        return []
    if not isinstance(settings, dict):
        return []
    lists = {name: values for name, values in settings.items() if isinstance(values, list)}
    num_groups = max(map(len, lists.values()), default=0)
    return [
        {name: values[place] for name, values in lists.items() if place < len(values)} for place in range(num_groups)
    ]


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterable[ArgumentDiff]:
    for name in one.keys() & other.keys() - OF_IMPLEMENTATION:
        if not _equal(one[name], other[name]):
            yield ArgumentDiff(name=name, reference=one[name], target=other[name])


def _equal(one: Any, other: Any) -> bool:
    """Compare settings; a tensor's float32 value equals the Python number it was made of."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-6)
    return bool(one == other)
