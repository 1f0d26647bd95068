"""Names the divergence: the call in which it shows, or calls before it that could not be compared themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jumar.accuracy.calls import Call
from jumar.accuracy.canonical import RANDOM, SHUFFLING
from jumar.accuracy.floors import MULTIPLES
from jumar.accuracy.judge import Judgement
from jumar.accuracy.results import OperatorDiff
from jumar.recording.schema import TensorRow


def blame(judged: Judgement, of_reference: set[int]) -> OperatorDiff:
    """Return the divergence: of the call itself, or of the calls before it that only one side has.

    Statistics cannot see what a shuffling operator did; if one that only one side has is in the same
    module and feeds the call by an input that only statistics were compared of, it is it.
    """
    suspects = judged.inputs.suspects
    if judged.inputs.out_of_line is None:
        blind = any(found.evidence == "statistics" for _, found, _ in judged.inputs.measures)
        shuffling = tuple(s for s in suspects if s.operator in SHUFFLING and _related(s.path, judged.diff.module_path))
        suspects = shuffling if blind and not judged.diff.arguments else ()
    if not suspects:
        return judged.diff
    mine = [call for call in suspects if id(call) in of_reference]
    theirs = [call for call in suspects if id(call) not in of_reference]
    return _of_suspects(judged, mine, theirs)


def _related(first: str, second: str) -> bool:
    shorter, longer = sorted((first, second), key=len)
    return shorter == longer or not shorter or longer.startswith(f"{shorter}.")


def _of_suspects(judged: Judgement, mine: list[Call], theirs: list[Call]) -> OperatorDiff:
    seen = judged.diff
    at = _origin(theirs) or (theirs or mine)[-1]
    theirs = theirs[: theirs.index(at) + 1] if at in theirs else theirs
    ours, other = (mine[-1].row if mine else None), (theirs[-1].row if theirs else None)
    name, error, tolerance = judged.inputs.out_of_line or ("", seen.error, seen.tolerance)
    read = tuple(tensor for tensor in seen.inputs if tensor.name == name)
    return replace(
        seen,
        module_path=at.path,
        module_type=at.row.module_type,
        phase=at.row.phase,
        occurrence=at.row.occurrence,
        reference_name=ours.name if ours else "",
        target_name=other.name if other else "",
        reference_seq=ours.seq if ours else None,
        target_seq=other.seq if other else None,
        source=at.row.source,
        reference_source=ours.source if ours else "",
        status="random" if drew_others(mine, theirs) else "diverge",
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
        note=f"not compared itself ({_sides(mine, theirs)}); seen in what {seen.name} "
        f"{'reads' if judged.inputs.out_of_line else 'returns'}",
    )


def _origin(calls: Sequence[Call]) -> Call | None:
    """Return the first call that makes NaN or Inf of finite inputs, if one does; else any of them may be it."""
    for call in calls:
        if any(_num_nonfinite(tensor) for tensor in call.outputs.values()):
            return None if any(_num_nonfinite(tensor) for tensor in call.inputs.values()) else call
    return None


def _num_nonfinite(tensor: TensorRow) -> int:
    return (tensor.num_nan or 0) + (tensor.num_inf or 0)


def drew_others(mine: Sequence[Call], theirs: Sequence[Call]) -> bool:
    """Return whether the calls draw random numbers, and not visibly the same ones: masks with equal shares of ones."""
    drawn = [[call for call in calls if call.operator in RANDOM] for calls in (mine, theirs)]
    if not any(drawn):
        return False
    shares = [{mask.mean for call in calls for mask in call.outputs.values() if _is_mask(mask)} for calls in drawn]
    return not shares[0] & shares[1]


def _is_mask(tensor: TensorRow) -> bool:
    return tensor.minimum == 0.0 and tensor.maximum == 1.0 and tensor.mean is not None and tensor.mean > 0.0


def _sides(mine: Sequence[Call], theirs: Sequence[Call]) -> str:
    """Return which calls of which side are meant."""
    if [call.row.name for call in mine] == [call.row.name for call in theirs]:
        return f"{_listed(mine)} of both runs"
    sides = (("reference only", mine), ("target only", theirs))
    return "; ".join(f"{side}: {_listed(calls)}" for side, calls in sides if calls)


def _listed(calls: Sequence[Call]) -> str:
    names = [call.row.name for call in calls]
    shown = ", ".join(names[-4:])
    return shown if len(names) <= 4 else f"{len(names) - 4} others, {shown}"
