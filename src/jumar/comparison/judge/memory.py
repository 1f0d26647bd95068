"""`Memory`: what the steps of one rank hand on, such as running statistics and the noise of gradients."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jumar.comparison.judge.loss_scaling import LossScaling
from jumar.comparison.measure.tolerance import FLOAT32_EPSILON, NoiseFloor, epsilon
from jumar.comparison.model.calls import Call, plain_path
from jumar.comparison.model.renames import EPSILON_FORM
from jumar.comparison.model.results import ArgumentDiff, OperatorDiff
from jumar.operators.layers import PARAMETERS
from jumar.recording.schema import CallRow

OF_IMPLEMENTATION = frozenset({"foreach", "fused", "capturable", "differentiable", "params"})
"""Settings of an optimizer that choose how it computes, not what."""

Key = tuple[str, str, str]
"""Module path, operator, name of the tensor. Of several calls of a module the last one counts."""


@dataclass(slots=True)
class Written:
    """A tensor that an operator wrote without returning it; the next call that reads it shows what."""

    diff: OperatorDiff
    """The comparison of the call that wrote it."""
    allowed: float
    """Relative difference that the call's inputs and the tensor's own difference before explain."""


@dataclass(frozen=True, slots=True)
class Group:
    """The settings of one parameter group."""

    rate: float | None = None
    """Greater learning rate of both sides; None when it was not recorded."""
    differences: tuple[ArgumentDiff, ...] = ()
    epsilon_reach: float = 0.0
    """Size of a gradient's element up to which two frameworks' forms of adding eps make other steps of it."""


@dataclass(frozen=True, slots=True)
class OptimizerPair:
    """One call of an optimizer's `step` on both sides."""

    names: tuple[str, str] = ("", "")
    occurrence: int = 0
    """Of the reference's call."""
    groups: tuple[Group, ...] = ()
    seqs: tuple[int | None, int | None] = (None, None)
    sources: tuple[str, str] = ("", "")

    def group(self, number: int | None) -> Group:
        """Return one group's settings; with None those of all groups together: the greatest rate, all differences."""
        if number is not None and number < len(self.groups):
            return self.groups[number]
        return self.groups[0] if len(self.groups) == 1 else _together(self.groups)


@dataclass(slots=True)
class Optimizers:
    """All calls of optimizers in a step."""

    pairs: tuple[OptimizerPair, ...] = ()
    alone: tuple[tuple[CallRow, ...], tuple[CallRow, ...]] = ((), ())
    """Calls of the reference and of the target that the other side does not make."""
    _known: dict[tuple[str, str], tuple[OptimizerPair, Group]] = field(default_factory=dict)
    """By arguments and line of a parameter's row: all parameters of a group have one."""

    def updates_of(self, parameter: CallRow) -> list[tuple[OptimizerPair, Group]]:
        """Return all calls that updated a parameter in the step; empty where its row does not tell."""
        told = _parsed(parameter.arguments)
        occurrences = told.get("occurrences")
        if not isinstance(occurrences, list):
            return []
        pairs = [p for p in self.pairs if p.names[0] == told.get("optimizer") and p.occurrence in occurrences]
        return [(pair, pair.group(told.get("group"))) for pair in pairs]

    def of(self, parameter: CallRow) -> tuple[OptimizerPair, Group]:
        """Return the call that updated a parameter (a row of the reference) last, and the settings it did so with.

        A recording of an older release tells by the line that called the optimizer.
        """
        key = parameter.arguments, parameter.source
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._found(parameter)
        return found

    def _found(self, parameter: CallRow) -> tuple[OptimizerPair, Group]:
        told = self.updates_of(parameter) if parameter.arguments else []
        if told:
            return told[-1]
        of_line = [pair for pair in self.pairs if pair.sources[0] and pair.sources[0] == parameter.source]
        if len(of_line) == 1 or not self.pairs:
            pair = of_line[0] if of_line else OptimizerPair()
            return pair, pair.group(None)
        return self.pairs[0], _together([group for pair in self.pairs for group in pair.groups])


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
    """The optimizers that work in this step."""
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
        """Return who wrote the tensor last."""
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
    """Return what a tensor of a call is known by in the next call."""
    return call.path, call.operator, name


def optimizers_of(reference: Sequence[CallRow], target: Sequence[CallRow]) -> Optimizers:
    """Return the calls of optimizers of both sides that belong together.

    Calls that updated the same parameters do, in their order: one side may call an optimizer more often than the other.
    Where the rows do not tell the parameters, the k-th call of the one belongs to the k-th of the other.
    """
    first, second = ([row for row in rows if row.kind == "optimizer"] for rows in (reference, target))
    trained, others = updated_by(reference), updated_by(target)
    left = list(range(len(second)))
    partners: list[int | None] = []
    for one in first:
        own = trained.get((one.name, one.occurrence), frozenset())
        shares = {k: len(own & others.get((second[k].name, second[k].occurrence), frozenset())) for k in left}
        found = max(shares, key=lambda k: (shares[k], -k), default=None)
        partners.append(found if found is not None and shares[found] else None)
        left = [k for k in left if k != partners[-1]]
    if not any(partner is not None for partner in partners):
        return Optimizers(tuple(_pair(one, other) for one, other in zip(first, second, strict=False)))
    pairs = list(zip(first, partners, strict=True))
    alone = tuple(one for one, k in pairs if k is None), tuple(second[k] for k in left)
    return Optimizers(tuple(_pair(one, second[k]) for one, k in pairs if k is not None), alone)


def updated_by(rows: Iterable[CallRow]) -> dict[tuple[str, int], frozenset[tuple[str, str]]]:
    """Return the parameters that each call of an optimizer updated, by its class and occurrence."""
    found: dict[tuple[str, int], set[tuple[str, str]]] = {}
    for row in rows:
        told = _parsed(row.arguments) if row.kind == "parameter" and row.arguments else {}
        occurrences = told.get("occurrences")
        for occurrence in occurrences if isinstance(occurrences, list) else ():
            found.setdefault((str(told.get("optimizer")), occurrence), set()).add(
                (plain_path(row.module_path), PARAMETERS.get(row.name, row.name))
            )
    return {call: frozenset(parameters) for call, parameters in found.items()}


def _pair(one: CallRow, other: CallRow) -> OptimizerPair:
    groups = zip(groups_of(one), groups_of(other), strict=False)
    return OptimizerPair(
        names=(one.name, other.name),
        occurrence=one.occurrence,
        groups=tuple(_group(*settings) for settings in groups),
        seqs=(one.seq, other.seq),
        sources=(one.source, other.source),
    )


def _group(one: Mapping[str, Any], other: Mapping[str, Any]) -> Group:
    rates = [float(side["lr"]) for side in (one, other) if isinstance(side.get("lr"), int | float)]
    return Group(max(rates, default=None), tuple(_differences(one, other)), _epsilon_reach(one, other))


def _epsilon_reach(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    if EPSILON_FORM not in one.keys() | other.keys():
        return 0.0
    from jumar.comparison.model.frameworks.form import epsilon_reach

    return epsilon_reach(one, other)


def _together(groups: Sequence[Group]) -> Group:
    differences: dict[str, ArgumentDiff] = {}
    for group in groups:
        for diff in group.differences:
            differences.setdefault(diff.name, diff)
    rate = max((g.rate for g in groups if g.rate is not None), default=None)
    return Group(rate, tuple(differences.values()), max((g.epsilon_reach for g in groups), default=0.0))


def groups_of(row: CallRow) -> list[dict[str, Any]]:
    """Return the settings of each parameter group of an optimizer's row, whose arguments list one value a group."""
    lists = {name: values for name, values in _parsed(row.arguments).items() if isinstance(values, list)}
    num_groups = max(map(len, lists.values()), default=0)
    return [
        {name: values[place] for name, values in lists.items() if place < len(values)} for place in range(num_groups)
    ]


def _parsed(arguments: str) -> dict[str, Any]:
    try:
        settings = json.loads(arguments or "{}")
    except json.JSONDecodeError:
        return {}
    return settings if isinstance(settings, dict) else {}


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterable[ArgumentDiff]:
    for name in sorted(one.keys() & other.keys() - OF_IMPLEMENTATION):
        if not _equal(one[name], other[name]):
            yield ArgumentDiff(name=name, reference=one[name], target=other[name])


def _equal(one: Any, other: Any) -> bool:
    """Compare settings; a tensor's float32 value equals the Python number it was made of."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-6)
    return bool(one == other)
