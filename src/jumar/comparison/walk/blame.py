"""Names the divergence: the call in which it shows, or calls before it that could not be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jumar.comparison.judge.judge import Judgement
from jumar.comparison.measure.scales import num_nonfinite
from jumar.comparison.measure.tolerance import MULTIPLES
from jumar.comparison.model.calls import Call, draws
from jumar.comparison.model.kinds import EXACT, SHUFFLING
from jumar.comparison.model.results import OperatorDiff
from jumar.recording.schema import TensorRow


def blame(judged: Judgement, of_reference: set[int]) -> OperatorDiff:
    """Return the divergence: of the call itself, or of the calls before it that only one side has.

    Statistics do not show what a shuffling operator did. Such an operator is blamed when only one side has it, when it
    is in the same module, and when the call reads its result as an input of which only statistics were compared.
    """
    suspects = judged.inputs.suspects
    if judged.inputs.out_of_line is None:
        blind = any(found.evidence == "statistics" for _, found, _ in judged.inputs.measures)
        shuffling = tuple(s for s in suspects if s.operator in SHUFFLING and _related(s.path, judged.diff.module_path))
        suspects = shuffling if blind and not judged.diff.arguments else ()
    if not suspects:
        return judged.diff
    reference = [call for call in suspects if id(call) in of_reference]
    target = [call for call in suspects if id(call) not in of_reference]
    return _of_suspects(judged, reference, target)


def _related(first: str, second: str) -> bool:
    shorter, longer = sorted((first, second), key=len)
    return shorter == longer or not shorter or longer.startswith(f"{shorter}.")


def _of_suspects(judged: Judgement, reference: list[Call], target: list[Call]) -> OperatorDiff:
    seen = judged.diff
    at = _origin(target) or (target or reference)[-1]
    target = target[: target.index(at) + 1] if at in target else target
    last, other = (reference[-1].row if reference else None), (target[-1].row if target else None)
    name, error, tolerance = judged.inputs.out_of_line or ("", seen.error, seen.tolerance)
    read = tuple(tensor for tensor in seen.inputs if tensor.name == name)
    return replace(
        seen,
        module_path=at.path,
        module_type=at.row.module_type,
        phase=at.row.phase,
        occurrence=at.row.occurrence,
        reference_name=last.name if last else "",
        target_name=other.name if other else "",
        reference_seq=last.seq if last else None,
        target_seq=other.seq if other else None,
        source=at.row.source,
        reference_source=last.source if last else "",
        status="random" if drew_others(reference, target) else "diverge",
        error=error,
        tolerance=tolerance,
        floor=None if tolerance is None else tolerance / MULTIPLES,
        tolerance_origin="what the calls compared before account for"
        if judged.inputs.out_of_line
        else seen.tolerance_origin,
        rounding=None,
        inherited=0.0,
        arguments=(),
        outputs=read or seen.outputs,
        inputs=(),
        note=f"not compared itself ({_sides(reference, target)}); seen in what {seen.name} "
        f"{'reads' if judged.inputs.out_of_line else 'returns'}",
    )


def _origin(calls: Sequence[Call]) -> Call | None:
    """Return the first call that makes NaN or Inf of finite inputs; without one, all of the calls."""
    for call in calls:
        if any(num_nonfinite(tensor) for tensor in call.outputs.values()):
            return None if any(num_nonfinite(tensor) for tensor in call.inputs.values()) else call
    return None


def drew_others(reference: Sequence[Call], target: Sequence[Call]) -> bool:
    """Return whether the calls draw random numbers, and not visibly the same ones: masks with equal shares of ones."""
    drawn = [[call for call in calls if draws(call.row)] for calls in (reference, target)]
    if not any(drawn):
        return False
    shares = [{mask.mean for call in calls for mask in call.outputs.values() if _is_mask(mask)} for calls in drawn]
    return not shares[0] & shares[1]


def _is_mask(tensor: TensorRow) -> bool:
    return tensor.minimum == 0.0 and tensor.maximum == 1.0 and tensor.mean is not None and tensor.mean > 0.0


def _sides(reference: Sequence[Call], target: Sequence[Call]) -> str:
    """Return which calls of which side are meant."""
    if [call.row.name for call in reference] == [call.row.name for call in target]:
        return f"{_listed(reference)} of both runs"
    sides = (("reference only", reference), ("target only", target))
    return "; ".join(f"{side}: {_listed(calls)}" for side, calls in sides if calls)


def _listed(calls: Sequence[Call]) -> str:
    names = [call.row.name for call in calls]
    shown = ", ".join(names[-4:])
    return shown if len(names) <= 4 else f"{len(names) - 4} others, {shown}"


HEALED = 8.0
"""Multiples of its own rounding within which a result that read a suspicious value agrees after all."""


@dataclass(slots=True)
class Suspicion:
    """A divergence that is not certain yet, and what depends on it."""

    diff: OperatorDiff
    num_leaves: int
    """Leaves that had been seen to differ when it arose."""
    read: int
    """Storage of the reference that was read and differs; 0 where it is not known."""
    random: OperatorDiff | None = None
    """Operator that had drawn other random numbers by then."""
    needs_reader: bool = False
    """The call itself calculates nothing. It counts when a call that calculates reads its result and differs."""
    open: set[int] = field(default_factory=set)
    """Storages of the reference that depend on it and of which no reader has agreed."""
    _touched: set[int] = field(default_factory=set)
    _has_spread: bool = False
    _is_kept: bool = False

    def begin(self, call: Call) -> None:
        """Take in the outputs of the call that is suspected."""
        self._taint(call)

    def see(self, call: Call, diff: OperatorDiff) -> None:
        """Take in a later call of the reference with its comparison."""
        if call.row.kind == "parameter":
            is_it = any(tensor.storage == self.read for tensor in call.outputs.values())
            self._is_kept |= bool(self.read) and is_it and diff.status == "diverge"
        read = {tensor.storage for tensor in call.inputs.values()} & self._touched
        if not read:
            return
        if diff.error is not None and diff.rounding is not None and diff.error <= HEALED * diff.rounding:
            self.open -= read
            self._touched -= {tensor.storage for tensor in call.outputs.values()}
        else:
            self._has_spread |= call.operator not in EXACT
            self.open -= read
            self._taint(call)

    def hand_on(self, call: Call) -> None:
        """Take in a call that only the reference has. Its result is suspicious when it reads a suspicious value."""
        read = {tensor.storage for tensor in call.inputs.values()} & self._touched
        if read:
            self.open -= read
            self._taint(call)

    def _taint(self, call: Call) -> None:
        storages = {tensor.storage for tensor in call.outputs.values()}
        self._touched |= storages
        self.open |= storages

    @property
    def is_confirmed(self) -> bool:
        """Whether it, or something that depends on it, is left now that the step is over."""
        return self._is_kept or (bool(self.open) and (self._has_spread or not self.needs_reader))
