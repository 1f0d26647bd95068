"""Recognises pairs of calls that surely agree, before their verdict is calculated.

Of two healthy runs nearly all pairs do. A pair is one when its inputs are accounted for and each output differs by no
more than a lower bound of the operator's own rounding: whatever the inputs explain only widens the tolerance.
What it takes beyond that (scales, condition numbers, the tolerance itself) is calculated, by the same code as of any
other pair, when somebody looks at the pair, or when an element is followed that differs by more than this step's
calls are known to account for.
"""

from __future__ import annotations

import math
from functools import lru_cache

from jumar.comparison.judge.flow import Flow
from jumar.comparison.judge.loss_scaling import Measures
from jumar.comparison.judge.memory import Memory
from jumar.comparison.judge.outputs import Output, compared_diff, judge_outputs
from jumar.comparison.judge.reading import Known, inputs_of, out_of_line
from jumar.comparison.measure.distances import Measure
from jumar.comparison.measure.tolerance import FLOAT32_EPSILON, STATISTICS_FLOOR, epsilon
from jumar.comparison.model.calls import Call
from jumar.comparison.model.kinds import ADOPTING, EXACT, OPAQUE, OVERWRITING, SELECTIVE, SILENT_WRITES, UNINITIALISED
from jumar.comparison.model.results import Evidence, OperatorDiff
from jumar.operators import is_in_place


class Agreement:
    """A pair of calls that agrees; `diff()` calculates its figures."""

    __slots__ = ("_came_in", "_memory", "_reference", "_returned", "_strict", "_target")

    def __init__(
        self,
        pair: tuple[Call, Call],
        came_in: list[Known],
        returned: list[Output],
        memory: Memory,
        strict: float,
    ) -> None:
        self._reference, self._target = pair
        self._came_in, self._returned = came_in, returned
        self._memory, self._strict = memory, strict

    def diff(self) -> OperatorDiff:
        """Return the public record of the pair."""
        inputs = inputs_of(self._reference, self._came_in)
        judged = judge_outputs(self._reference, inputs, self._returned, self._memory, self._strict)
        return compared_diff(self._reference, self._target, inputs, self._returned, judged)

    def allowed(self, found: Measure) -> float:
        """Return the greatest absolute error of an element that the tolerance of an output allows for."""
        inputs = inputs_of(self._reference, self._came_in)
        output = [(name, m) for name, m in self._returned if m is found]
        judged = judge_outputs(self._reference, inputs, output, self._memory, self._strict)
        return max(verdict[1] for verdict in judged if verdict is not None)

    def evidence(self) -> set[Evidence]:
        """Return by what its outputs were judged."""
        return {m.evidence for _, m in self._returned}


class Agreements:
    """Recognises the pairs of one step that surely agree, and notes them in the flow of values."""

    def __init__(self, flow: Flow, memory: Memory, measures: Measures, strict: float) -> None:
        self._flow, self._memory, self._measures, self._strict = flow, memory, measures, strict
        self._enabled = flow.enabled and memory.floor is None and not memory.scaling.differs

    def of(self, reference: Call, target: Call) -> Agreement | None:
        """Return the pair when it surely agrees; None when it has to be judged, and then nothing was noted of it."""
        if not (self._enabled and _is_plain_pair(reference, target)):
            return None
        came_in = self._read(reference, target)
        returned = None if came_in is None else self._compare(reference, target)
        if came_in is None or returned is None:
            return None
        agreement = Agreement((reference, target), came_in, returned, self._memory, self._strict)
        for _, m in returned:
            self._flow.agreed(m, None if m.equal else agreement)
        return agreement

    def _read(self, reference: Call, target: Call) -> list[Known] | None:
        """Return the inputs; None when one says more than that it is accounted for.

        Equal leaves are taken as read: they are equal for every call that reads them.
        """
        flow, partners = self._flow, target.inputs
        came_in: list[Known] = []
        for name, a in reference.inputs.items():
            b = partners.get(name)
            if b is None:
                continue
            if name.startswith("input.out"):
                return None
            found = self._measures.take(a, b, None)
            trace, other = flow.traces(a, b)
            if not found.known or trace.garbage or other.garbage or trace.suspects or other.suspects:
                return None
            if trace.leaf and other.leaf:
                if not found.equal:
                    return None
                flow.take_leaf(found)
                noise = found.noise
            else:
                least = trace.at_least if trace.at_least > other.at_least else other.at_least
                if not found.equal and (found.nonfinite_differs or out_of_line(found, least, self._strict)):
                    return None
                noise = trace.noise if trace.noise > other.noise else other.noise
            came_in.append((name, found, noise))
        return came_in

    def _compare(self, reference: Call, target: Call) -> list[Output] | None:
        """Return the outputs when each is equal, or differs by less than the operator's own rounding for sure."""
        operator, partners = reference.operator, target.outputs
        storages = [tensor.storage for tensor in reference.inputs.values()]
        returned: list[Output] = []
        counts = False
        for name, a in reference.outputs.items():
            b = partners.get(name)
            if b is None:
                continue
            m = self._measures.take(a, b, None)
            if not m.known or m.num_nonfinite or m.target_num_nonfinite or a.storage in storages:
                return None
            if not m.equal and m.error() > self._strict * _least_rounding(operator, a.dtype, b.dtype):
                return None
            counts = counts or m.num > 0
            returned.append((name, m))
        return returned if counts else None


def _is_plain_pair(reference: Call, target: Call) -> bool:
    row, other = reference.row, target.row
    return (
        row.name == other.name
        and row.arguments == other.arguments
        and reference.operator == target.operator
        and row.kind == "op"
        and not (reference.homes or target.homes)
        and _is_plain(reference.operator, row.name)
    )


@lru_cache(maxsize=4096)
def _is_plain(operator: str, name: str) -> bool:
    """Return whether the operator reads its inputs, writes its outputs, and nothing else is to be known of it."""
    special = operator in UNINITIALISED or operator in ADOPTING or operator in SILENT_WRITES or operator in OPAQUE
    return not special and not (operator in OVERWRITING and is_in_place(name)) and not name.endswith("out")


@lru_cache(maxsize=4096)
def _least_rounding(operator: str, dtype: str, target: str) -> float:
    """Return a lower bound of the relative rounding of an output; negative where a difference is no rounding."""
    eps = epsilon(dtype, target)
    if eps == 0 or epsilon(dtype) == 0 or operator in SELECTIVE:
        return -math.inf
    if operator in EXACT:
        return eps if dtype != target else STATISTICS_FLOOR
    return eps + 10.0 * min(eps, FLOAT32_EPSILON)
