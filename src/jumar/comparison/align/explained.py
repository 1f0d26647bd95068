"""Says why a call that only one side makes is no difference between the programs: `explanations`.

Devices, versions and settings that choose how something is computed insert and leave out calls. Such a call is
explained by what it is, never by the values that happen to come out: a constant, a loss scale, the parts of an
optimizer whose parameters are compared, a sum with zero or a product with one, a forward pass that is run again, terms
of one gradient in another order or number, a figure for the log that no other call reads. All others are a difference
of the two programs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from jumar.comparison.align.matching import Matching, writes
from jumar.comparison.align.regions import Region, components
from jumar.comparison.align.turns import figures_of, result_of
from jumar.comparison.model.calls import Call, brings_in
from jumar.comparison.model.kinds import CONSTANTS, PRODUCTS, QUERIES
from jumar.recording.schema import TensorRow

CONSTANT = "makes a constant"
SCALE = "brings the loss scale in"
NEUTRAL = "adds zero or multiplies by one"
AGAIN = "runs a compared call of its own side again"
TERMS = "adds up the terms of a gradient in another order"
AROUND = "holds modules whose calls are compared"
THROUGH = "hands its input on unchanged"
OPTIMIZER = "is a part of the optimizer, whose parameters are compared"
FACTOR = "multiplies by a number as the other side does at another place"
GRADIENT = "makes terms of a gradient, which is compared"
LOGGED = "makes a figure that no other call reads"

TERMS_OF = PRODUCTS | {"add", "sum", "stack"}
"""Operators that make terms of a gradient and add them up."""

SAME = 1e-5
"""Relative difference up to which two products of numbers are one."""


def explanations(matching: Matching, regions: Sequence[Region], scales: tuple[float, float]) -> dict[int, str]:
    """Return the reason for each explained call without a partner, by the call's `id`.

    `scales` are the loss scales of both sides. Members of a region are compared at its border and not looked at.
    """
    found: dict[int, str] = {}
    sides = [_Side(matching, regions, side) for side in (0, 1)]
    for side, scale in zip(sides, scales, strict=True):
        for call in side.left_calls():
            reason = side.reason(call, scale)
            if reason:
                found[id(call)] = reason
    sums = [[call for call in side.left_calls() if _is_gradient_sum(call)] for side in sides]
    if len(sums[0]) == len(sums[1]):
        found.update({id(call): TERMS for calls in sums for call in calls})
    found.update(_moved_factors([side.left_calls() for side in sides]))
    for side in sides:
        for part in side.parts():
            rest = [k for k in part if id(side.calls[k]) not in found]
            reason = side.reason_of_part(part) if rest else ""
            if reason:
                found.update({id(side.calls[k]): reason for k in rest})
    return found


class _Side:
    """One side of a step, and its calls without a partner."""

    def __init__(self, matching: Matching, regions: Sequence[Region], side: int) -> None:
        self.calls = matching.calls[side]
        self._matching, self._side = matching, side
        self._flow = matching.flows[side]
        inside = {k for region in regions for k in region.members[side]}
        self._left = [k for k in matching.left(side) if k not in inside]
        self._is_left = set(self._left)
        self._paired = [
            call
            for k, call in enumerate(self.calls)
            if matching.partners[side][k] >= 0 and call.row.kind != "parameter"
        ]
        self._done = {result_of(call) for call in self._paired} - {()}
        self._places = {call.place for call in self._paired}
        paired_rows = [
            self.calls[k].row
            for k, other in enumerate(matching.partners[side])
            if other >= 0 and self.calls[k].row.kind == "parameter"
        ]
        self._trained = {tensor.storage for row in paired_rows for tensor in (*row.inputs, *row.outputs)} - {0}
        self._has_parameters = bool(paired_rows)

    def left_calls(self) -> Iterator[Call]:
        """Yield the calls without a partner."""
        return (self.calls[k] for k in self._left)

    def parts(self) -> Iterator[list[int]]:
        """Yield the calls without a partner that hang together, each part in order."""
        for part in components(self._matching, self._side):
            yield sorted(part & self._is_left)

    def reason(self, call: Call, scale: float) -> str:
        """Return why a single call is no difference; empty when it is one."""
        if call.row.kind == "module":
            return self._reason_of_module(call)
        if call.row.kind != "op":
            return ""
        if call.operator in CONSTANTS:
            return CONSTANT
        if brings_in(call, scale):
            return SCALE
        if _is_neutral(call):
            return NEUTRAL
        return AGAIN if result_of(call) in self._done else ""

    def _reason_of_module(self, call: Call) -> str:
        if any(place.startswith(f"{call.place}.") for place in self._places):
            return AROUND
        ends = [figures for tensor in call.outputs.values() if (figures := figures_of(tensor))]
        read = [figures_of(tensor) for tensor in call.inputs.values()]
        return THROUGH if ends and all(figures in read for figures in ends) else ""

    def reason_of_part(self, part: Sequence[int]) -> str:
        """Return why calls that hang together are no difference; empty when they are one."""
        if not part or any(self.calls[k].row.kind != "op" for k in part):
            return ""
        if self.calls[part[0]].row.phase == "optimizer":
            return OPTIMIZER if self._has_parameters and self._trains(part) else ""
        if self._flow.known and self._is_logged(part):
            return LOGGED
        return GRADIENT if self._flow.known and self._makes_gradients(part) else ""

    def _trains(self, part: Sequence[int]) -> bool:
        """Return whether optimizer's calls write a trained parameter or its gradient, or leave nothing that lasts but
        single numbers. (A moving average of the weights lasts, too.)"""
        written = [tensor for k in part for tensor in writes(self.calls[k])]
        from_outside = {-value for k in part for _, value in self._flow.reads[k] if value < 0}
        lasting = [tensor for tensor in written if tensor.storage in from_outside and math.prod(tensor.shape) != 1]
        return not lasting or any(tensor.storage in self._trained for tensor in written)

    def _makes_gradients(self, part: Sequence[int]) -> bool:
        """Return whether calls of the backward pass are products and sums that only compared calls read.

        A kernel for all time steps makes one product of what another one makes of each step and adds up.
        """
        members = set(part)
        readers = {reader for k in part for reader in self._flow.readers[k]} - members
        terms = all(self.calls[k].row.phase == "backward" and self.calls[k].operator in TERMS_OF for k in part)
        return terms and bool(readers) and self._is_left.isdisjoint(readers)

    def _is_logged(self, part: Sequence[int]) -> bool:
        """Return whether nothing but the host reads what the calls make, and they leave single numbers at most."""
        members = set(part)
        for k in part:
            readers = [reader for reader in self._flow.readers[k] if reader not in members]
            if any(self.calls[reader].operator not in QUERIES for reader in readers):
                return False
            foreign = {
                tensor.storage
                for name, value in self._flow.reads[k]
                if value not in members and (tensor := self.calls[k].inputs[name]).storage
            }
            made = writes(self.calls[k])
            lasts = not self._flow.readers[k] or any(tensor.storage in foreign for tensor in made)
            if lasts and any(math.prod(tensor.shape) != 1 for tensor in made):
                return False
        return True


def _is_gradient_sum(call: Call) -> bool:
    return call.row.kind == "op" and call.row.phase == "backward" and call.operator == "add"


def _moved_factors(sides: Sequence[Iterable[Call]]) -> dict[int, str]:
    """Return the products with a number that the sides make at other places of a module, by `id`: the numbers of a
    module and phase multiply to the same."""
    factors: list[dict[tuple[str, str], list[tuple[Call, float]]]] = [{}, {}]
    for of, calls in zip(factors, sides, strict=True):
        for call in calls:
            factor = _factor(call)
            if factor:
                of.setdefault((call.path, call.row.phase), []).append((call, factor))
    found = {}
    for place in factors[0].keys() & factors[1].keys():
        sums = [math.fsum(math.log(abs(factor)) for _, factor in of[place]) for of in factors]
        signs = [sum(factor < 0 for _, factor in of[place]) % 2 for of in factors]
        if signs[0] == signs[1] and abs(sums[0] - sums[1]) <= SAME:
            found.update({id(call): FACTOR for of in factors for call, _ in of[place]})
    return found


def _factor(call: Call) -> float | None:
    """Return the number that a call multiplies its first argument by; None for other calls."""
    if call.row.kind != "op" or call.operator not in {"mul", "div"} or not call.inputs:
        return None
    others = list(call.inputs.values())[1:]
    other = call.arguments().get("other")
    if others and math.prod(others[0].shape) == 1 and others[0].minimum is not None:
        other = others[0].minimum
    if isinstance(other, bool) or not isinstance(other, int | float) or not other or not math.isfinite(other):
        return None
    return 1.0 / other if call.operator == "div" else float(other)


def _is_neutral(call: Call) -> bool:
    """Return whether a call adds zero or multiplies by one, by its arguments or the figures of what it reads."""
    neutral = {"add": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0}.get(call.operator)
    if neutral is None or not call.outputs or not call.inputs:
        return False
    shape = next(iter(call.outputs.values())).shape
    first, *others = call.inputs.values()
    if first.shape == shape and others:
        return _is_all(others[0], neutral) or (
            call.operator in {"add", "mul"} and others[0].shape == shape and _is_all(first, neutral)
        )
    other = call.arguments().get("other")
    return first.shape == shape and isinstance(other, int | float) and other == neutral


def _is_all(tensor: TensorRow, number: float) -> bool:
    return tensor.minimum == tensor.maximum == number and tensor.num_nan == 0 and tensor.num_inf == 0
