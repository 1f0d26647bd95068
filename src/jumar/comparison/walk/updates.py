"""`Updates`: what optimizers write within a step that calls of the same step read.

With two optimizers, or several updates a step, a parameter is read after its update and before the step's end. What is
read there is what the update left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from jumar.comparison.align.align import AlignedStep
from jumar.comparison.align.matching import Pair, writes
from jumar.comparison.judge.flow import Flow
from jumar.comparison.judge.memory import Group, OptimizerPair, Optimizers
from jumar.comparison.judge.parameter_updates import VALUE, Update
from jumar.comparison.model.calls import Call
from jumar.comparison.model.results import OperatorDiff
from jumar.recording.schema import CallRow


class Updates:
    """The updates of one step, in the order in which they are made."""

    def __init__(self, pairs: Iterable[Pair], optimizers: Optimizers, flow: Flow) -> None:
        self._flow = flow
        self._waiting: list[tuple[int, Call, Call, OptimizerPair, Group, bool]] = []
        self._open: dict[int, Update] = {}
        for pair in pairs if flow.enabled and optimizers.pairs else ():
            if pair.reference is None or pair.target is None or pair.reference.row.kind != "parameter":
                continue
            if VALUE in pair.reference.outputs and VALUE in pair.target.outputs:
                self._add(pair.reference, pair.target, optimizers)
        self._waiting.sort(key=lambda waiting: waiting[0])

    def _add(self, reference: Call, target: Call, optimizers: Optimizers) -> None:
        told = optimizers.updates_of(reference.row)
        for optimizer, group in told:
            if optimizer.seqs[0] is not None:
                is_last = optimizer is told[-1][0]
                self._waiting.append((optimizer.seqs[0], reference, target, optimizer, group, is_last))

    def read_by(self, reference: Call, target: Call) -> Iterator[tuple[Update, str]]:
        """Yield the updates whose result a pair of calls is the first to read, and the input that it is."""
        if reference.row.kind == "parameter" or not (self._waiting or self._open):
            return
        while self._waiting and self._waiting[0][0] < reference.row.seq:
            self._make(*self._waiting.pop(0)[1:])
        if not self._open:
            return
        for name, tensor in reference.inputs.items():
            if tensor.storage in self._open and name in target.inputs:
                yield self._open.pop(tensor.storage), name

    def _make(self, reference: Call, target: Call, optimizer: OptimizerPair, group: Group, is_last: bool) -> None:
        first, second = reference.outputs[VALUE], target.outputs[VALUE]
        before = self._flow.written_elsewhere(first, second)
        if first.storage:
            self._open[first.storage] = Update(reference, target, optimizer, group, is_last, before)


def traced_to_write(first: OperatorDiff, step: AlignedStep) -> OperatorDiff:
    """Return the divergence of a step, or the write to a parameter that one side alone makes before the optimizer that
    was named: the optimizer is not at fault for values that it found."""
    if first.kind != "optimizer" or first.arguments:
        return first
    sides = (step.reference, first.reference_seq), (step.target, first.target_seq)
    for side, (calls, end) in enumerate(sides):
        if end is None:
            continue
        trained = {t.storage for call in calls if call.row.kind == "parameter" for t in call.outputs.values()}
        for pair in step.pairs:
            call, other = (pair.reference, pair.target) if side == 0 else (pair.target, pair.reference)
            if call is None or other is not None or pair.region or id(call) in step.explained:
                continue
            is_before = call.row.kind == "op" and call.row.phase != "optimizer" and call.row.seq < end
            if is_before and not call.layout_only and any(tensor.storage in trained for tensor in writes(call)):
                return _of_write(first, call, side)
    return first


def _alone(row: CallRow, side: int) -> dict[str, Any]:
    """Return the fields of a difference that name a row which only one side has."""
    return {
        "reference_name": row.name if side == 0 else "",
        "target_name": row.name if side == 1 else "",
        "reference_seq": row.seq if side == 0 else None,
        "target_seq": row.seq if side == 1 else None,
        "occurrence": row.occurrence,
        "source": row.source,
        "reference_source": row.source if side == 0 else "",
    }


def _of_write(first: OperatorDiff, call: Call, side: int) -> OperatorDiff:
    row, word = call.row, ("reference", "target")[side]
    return replace(
        first,
        kind="op",
        phase=row.phase,
        module_path=call.path,
        module_type=row.module_type,
        **_alone(row, side),
        note=f"only the {word} makes this write to a parameter before {first.name} updates it, which is where it shows",
    )


def traced_to_optimizer(first: OperatorDiff, optimizers: Optimizers, calls: Sequence[Call]) -> OperatorDiff:
    """Return the divergence of a step, or the optimizer that it comes from: one whose settings differ and whose closure
    makes the call that diverges, or one that only one side calls, where the call comes after an update.

    `calls` are the reference's of that step.
    """
    if first.kind not in {"op", "parameter"} or first.phase == "optimizer" or first.arguments:
        return first
    around = _around(first, optimizers, calls) if first.kind == "op" else None
    if around is not None:
        return _of_settings(first, around)
    seqs = first.reference_seq, first.target_seq
    after = any(
        seq is not None and made is not None and made < seq
        for pair in optimizers.pairs
        for seq, made in zip(seqs, pair.seqs, strict=True)
    )
    return _of_one_side(first, optimizers) if after and any(optimizers.alone) else first


def _around(first: OperatorDiff, optimizers: Optimizers, calls: Sequence[Call]) -> OptimizerPair | None:
    """Return the optimizer with other settings whose closure makes the call that diverges: operators of the optimizer
    come before it, and a backward pass before the optimizer is done. (Its row has the number of its end.)"""
    at = first.reference_seq
    later = [pair for pair in optimizers.pairs if at is not None and pair.seqs[0] is not None and pair.seqs[0] > at]
    following = min(later, key=lambda pair: pair.seqs[0] or 0, default=None)
    if at is None or following is None or not following.group(None).differences:
        return None
    end = following.seqs[0] or 0
    begin = max(
        (pair.seqs[0] for pair in optimizers.pairs if pair.seqs[0] is not None and pair.seqs[0] < at), default=-1
    )
    rows = [call.row for call in calls if call.row.kind == "op"]
    has_begun = any(row.phase == "optimizer" and begin < row.seq < at for row in rows)
    return following if has_begun and any(row.phase == "backward" and at <= row.seq < end for row in rows) else None


def _of_settings(first: OperatorDiff, optimizer: OptimizerPair) -> OperatorDiff:
    return replace(
        first,
        kind="optimizer",
        phase="optimizer",
        module_path="",
        module_type="",
        reference_name=optimizer.names[0],
        target_name=optimizer.names[1],
        reference_seq=optimizer.seqs[0],
        target_seq=optimizer.seqs[1],
        occurrence=optimizer.occurrence,
        source=optimizer.sources[1] or first.source,
        reference_source=optimizer.sources[0] or first.reference_source,
        arguments=optimizer.group(None).differences,
        note=f"seen in what {first.name} reads, which the optimizer's closure runs",
    )


def _of_one_side(first: OperatorDiff, optimizers: Optimizers) -> OperatorDiff:
    side = 0 if optimizers.alone[0] else 1
    row = optimizers.alone[side][0]
    word, other = ("reference", "target") if side == 0 else ("target", "reference")
    return replace(
        first,
        kind="optimizer",
        phase="optimizer",
        module_path="",
        module_type="",
        **_alone(row, side),
        note=f"only the {word} makes this update in the step, so that what comes after an update has no counterpart "
        f"in the {other}; seen in {first.name}",
    )
