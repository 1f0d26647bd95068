"""`Tally`: counts what the walk through two recordings compares, and what it finds without a partner or a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jumar.comparison.align.align import AlignedStep
from jumar.comparison.judge.parameter_updates import NO_RATE
from jumar.comparison.measure.tolerance import epsilon
from jumar.comparison.model.calls import Call
from jumar.comparison.model.held import Held
from jumar.comparison.model.kinds import QUERIES, TRANSPORT, UNINITIALISED
from jumar.comparison.model.results import OperatorDiff, Share, TensorDiff
from jumar.comparison.walk.step_walk import StepOutcome
from jumar.operators import canonical_name
from jumar.recording.schema import CallRow, TensorRow


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a budget left out of a step."""

    calls: tuple[bool, bool]
    """Whether calls are missing, by side."""
    anything: bool
    """Whether calls or values are missing on either side."""
    held: tuple[Held | None, Held | None] = (None, None)
    """By side, the kinds of calls in the step, where another tool made the other recording; else None."""

    def lacks(self, row: CallRow, side: int) -> bool:
        """Return whether a side holds no calls of the row's kind, though the other one's tool does."""
        kinds = self.held[side]
        return kinds is not None and (row.kind, row.phase) not in kinds


UNCALCULATED = TRANSPORT | QUERIES | UNINITIALISED
"""Operators that calculate nothing."""

GRADIENT, VALUE = "input.grad", "output.0"


@dataclass(slots=True)
class Tally:
    """Counts over all compared steps and ranks."""

    num_covered: list[int] = field(default_factory=lambda: [0, 0])
    """Calls with a partner, or inside a region, by side."""
    num_calls: list[int] = field(default_factory=lambda: [0, 0])
    num_values: int = 0
    """Pairs of calls of which values were compared."""
    num_pairs: int = 0
    """Pairs of calls that calculate."""
    num_blind: int = 0
    """Of these, pairs without a value that could be compared."""
    gradients: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Compared, in the reference, in the target."""
    parameters: list[int] = field(default_factory=lambda: [0, 0, 0])
    extra: tuple[list[Call], list[Call]] = field(default_factory=lambda: ([], []))
    """Calls and parameters that only one side has, and for which there is no explanation."""
    explained: dict[str, int] = field(default_factory=dict)
    """Calls that only one side has, by the reason for which they are no difference."""
    other_shapes: list[OperatorDiff] = field(default_factory=list)
    """Pairs of calls whose results have another number of elements."""
    num_other_shapes: int = 0
    unseen_regions: list[OperatorDiff] = field(default_factory=list)
    """Calculations made with other calls whose results could not be compared."""
    other_inputs: list[tuple[OperatorDiff, TensorDiff]] = field(default_factory=list)
    """Of dumps that do not tell where a value comes from: the first input of a rank that differs by far more than any
    result before it."""
    unjudged: list[OperatorDiff] = field(default_factory=list)
    """Parameters that differ by more than rounding, whose learning rate is not known."""
    num_updates: list[int] = field(default_factory=lambda: [0, 0])
    """Steps of optimizers, by side."""
    has_inputs: bool = False
    """Whether a call has inputs. Tensors of a checkpoint have none."""
    num_budgeted: int = 0
    """Steps of which a budget left something out."""

    def add(
        self,
        aligned: AlignedStep,
        outcome: StepOutcome,
        rows: tuple[Sequence[CallRow], Sequence[CallRow]],
        left_out: Callable[[], LeftOut],
    ) -> None:
        """Take in one step of one rank. `left_out` is asked where something has no partner or no value."""
        blind = self.num_blind
        before = tuple(self.gradients)
        for pair in aligned.pairs:
            if pair.members != ((), ()):
                continue
            calls = pair.reference, pair.target
            if (pair.reference or pair.target).row.kind == "parameter":  # type: ignore[union-attr]  # one is there
                self._add_parameter(calls, aligned.explained, left_out)
            elif all(calls):
                self._cover(calls)
                self._see_values(calls)
            else:
                self._add_alone(calls, bool(pair.region), aligned.explained, left_out)
        self._add_updates(rows, left_out)
        if self.num_blind > blind:
            self.num_budgeted += left_out().anything
        self._add_values(outcome)
        if judged := [] if _knows_storages(aligned) else outcome.operators.judged():
            self.other_inputs.extend([] if self.other_inputs else _other_inputs(judged))
        compared, *of_sides = (now - then for now, then in zip(self.gradients, before, strict=True))
        ends_in_gradients = 0 < compared >= max(of_sides)
        self.unseen_regions.extend(
            diff for diff in outcome.unseen_regions if not (ends_in_gradients and diff.phase == "backward")
        )

    def _add_updates(self, rows: tuple[Sequence[CallRow], Sequence[CallRow]], left_out: Callable[[], LeftOut]) -> None:
        updates = [[row for row in of_side if row.kind == "optimizer"] for of_side in rows]
        if len(updates[0]) == len(updates[1]) or not any(
            left_out().lacks(row, 1 - side) for side in (0, 1) for row in updates[side][:1]
        ):
            for side in (0, 1):
                self.num_updates[side] += len(updates[side])

    def _cover(self, calls: tuple[Call | None, Call | None]) -> None:
        for side, call in enumerate(calls):
            if call is not None:
                self.num_calls[side] += 1
                self.num_covered[side] += 1
                self.has_inputs = self.has_inputs or bool(call.inputs)

    def _see_values(self, calls: tuple[Call | None, Call | None]) -> None:
        """Count a pair of calls that calculate, and whether either of them was recorded without values. An optimizer's
        calls seldom have values: the parameters show what it did."""
        known = [call for call in calls if call is not None and call.operator not in UNCALCULATED]
        means_something = bool(known) and known[0].row.phase != "optimizer"
        if means_something and all(call.outputs for call in known):
            self.num_pairs += 1
            self.num_blind += not all(any(map(_has_values, call.outputs.values())) for call in known)

    def _add_alone(
        self,
        calls: tuple[Call | None, Call | None],
        in_region: bool,
        explained: dict[int, str],
        left_out: Callable[[], LeftOut],
    ) -> None:
        side = 0 if calls[0] is not None else 1
        call = calls[side]
        assert call is not None
        if in_region:
            self._cover(calls)
            return
        if call.layout_only:
            return
        self.num_calls[side] += 1
        reason = explained.get(id(call), "")
        if not reason:
            reason = _reason_of_other(call.row, 1 - side, left_out())
        if reason:
            self.explained[reason] = self.explained.get(reason, 0) + 1
        else:
            self.extra[side].append(call)

    def _add_parameter(
        self,
        calls: tuple[Call | None, Call | None],
        explained: dict[int, str],
        left_out: Callable[[], LeftOut],
    ) -> None:
        for name, counts in ((GRADIENT, self.gradients), (VALUE, self.parameters)):
            tensors = [_named(call, name) for call in calls]
            for side, tensor in enumerate(tensors):
                counts[side + 1] += tensor is not None
            counts[0] += all(tensor is not None and _has_values(tensor) for tensor in tensors)
        if not all(calls):
            side = 0 if calls[0] is not None else 1
            call = calls[side]
            assert call is not None
            if id(call) not in explained and not left_out().lacks(call.row, 1 - side):
                self.extra[side].append(call)

    def _add_values(self, outcome: StepOutcome) -> None:
        judged = outcome.operators.judged()
        self.num_values += len(outcome.operators) - len(judged)
        for diff in judged:
            if diff.kind == "parameter" and diff.note == NO_RATE and diff.status == "not-compared":
                self.parameters[0] -= 1
                self.unjudged.append(diff)
            if diff.kind in {"parameter", "optimizer"}:
                continue
            if diff.status != "not-compared":
                self.num_values += 1
            elif _other_size(diff) and canonical_name(diff.reference_name) not in UNCALCULATED:
                self.num_other_shapes += 1
                self.other_shapes.extend([diff] if not self.other_shapes else [])

    def shares(self) -> dict[str, Share]:
        """Return how many calls have a partner, and how many gradients and parameters were compared.

        Of a calculation that the sides make with other calls the lesser number of calls counts.
        """
        covered = min(self.num_covered)
        left = [calls - of_side for calls, of_side in zip(self.num_calls, self.num_covered, strict=True)]
        counts = {"calls": (covered, covered + left[0], covered + left[1])}
        counts |= {"gradients": tuple(self.gradients), "parameters": tuple(self.parameters)}  # type: ignore[dict-item]  # three each
        return {name: Share(compared=c, reference=r, target=t) for name, (c, r, t) in counts.items()}


def _reason_of_other(row: CallRow, side: int, left_out: LeftOut) -> str:
    """Return why a side need not have a call; empty when it should."""
    if left_out.calls[side]:
        return "is left out of the other recording by its budget"
    if left_out.lacks(row, side):
        return f"is of the {row.phase}, of which the other recording holds no {WORDS.get(row.kind, row.kind)}"
    return ""


WORDS = {"op": "operator", "module": "module"}

FAR, LEAST = 64.0, 1e-3
"""An input is of other data when it differs by this many times what any result before it does, and by the second figure
at least. (Calls that a dump lacks may enlarge a difference.)"""


def _knows_storages(aligned: AlignedStep) -> bool:
    return any(tensor.storage for call in aligned.reference for tensor in call.inputs.values())


def _other_inputs(judged: Sequence[OperatorDiff]) -> list[tuple[OperatorDiff, TensorDiff]]:
    """Return the first call of the forward pass with an input that differs though nothing before it does."""
    seen = 0.0
    for diff in judged:
        if diff.phase != "forward" or diff.kind != "op":
            continue
        for tensor in diff.inputs:
            allowed = max(FAR * seen, LEAST, 8.0 * epsilon(tensor.dtype, tensor.target_dtype))
            if tensor.error is not None and tensor.error > allowed:
                return [(diff, tensor)]
        seen = max(seen, diff.error or 0.0)
    return []


def _named(call: Call | None, name: str) -> TensorRow | None:
    if call is None:
        return None
    return call.inputs.get(name) or call.outputs.get(name)


def _has_values(tensor: TensorRow) -> bool:
    return tensor.num_nan is not None or bool(tensor.hash) or tensor.minimum is not None


def _other_size(diff: OperatorDiff) -> bool:
    return any(
        math.prod(tensor.shape) != math.prod(tensor.target_shape)
        and not (-1 in tensor.shape or -1 in tensor.target_shape)
        for tensor in diff.outputs
    )
