"""Compares one rank of two recordings step by step, and finds out what a difference before the operators means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jumar.accuracy.align import AlignedStep, align_step
from jumar.accuracy.calls import Call
from jumar.accuracy.collect import MAX_STRUCTURE, collect, ended
from jumar.accuracy.correspondence import Correspondence, HyperparameterDiff
from jumar.accuracy.evidence import Evidenced
from jumar.accuracy.floors import NoiseFloor
from jumar.accuracy.judge import Load
from jumar.accuracy.measure import Loader, no_tensor
from jumar.accuracy.memory import Memory
from jumar.accuracy.micro_batches import judge_gradients
from jumar.accuracy.modules import ModuleMap, match_modules
from jumar.accuracy.options import CompareOptions
from jumar.accuracy.origins import batch_elsewhere, relation, transposed_parameters
from jumar.accuracy.precision import reduced_products
from jumar.accuracy.skipped_updates import skipped_update, without_backward
from jumar.accuracy.source import RecordingLike, TensorReader
from jumar.accuracy.steps import micro_steps
from jumar.accuracy.walk import StepOutcome, compare_step
from jumar.recording.schema import CallRow, StepInfo


@runtime_checkable
class HasStepInfo(Protocol):
    """A recording that knows of each step as a whole; foreign ones need not."""

    def step_info(self, step: int, rank: int = 0) -> StepInfo:
        """Return what is known of a step as a whole."""


class RankWalk:
    """One rank of both recordings; the steps are compared in their order."""

    def __init__(
        self,
        reference: RecordingLike,
        target: RecordingLike,
        ranks: tuple[int, int],
        options: CompareOptions,
        *,
        floor: NoiseFloor | None = None,
    ) -> None:
        self._reference, self._target, self._ranks, self._options = reference, target, ranks, options
        self._load = tensor_loader(reference, target)
        self._memory = Memory(floor=floor, reduced=reduced_products(reference.info, target.info))
        self._modules: ModuleMap | None = None

    def take_into(self, found: Evidenced, step: int, other: int, *, is_first: bool) -> None:
        """Compare a pair of steps and take what it shows into `found`."""
        rows = self._rows(step, other)
        before = ended(found)
        skipped = skipped_update((self._reference, self._target), (step, other), self._ranks, rows)
        if skipped is not None and skipped.benign:
            rows = without_backward(rows[0]), without_backward(rows[1])
        outcome, aligned = self._compare(*rows)
        if not found.coarsest:
            found.coarsest = self._memory.coarsest
        judge_gradients(outcome, aligned, self._memory.num_steps - 1, found.coarsest)
        collect(found, outcome, step, is_first=is_first, options=self._options)
        known = found.correspondence
        known.structure.extend(aligned.structure[: MAX_STRUCTURE - len(known.structure)])
        self._note_hyperparameters(known, step)
        if is_first:
            self._note_first(known, step, other, rows)
            known.transposed = known.transposed or transposed_parameters(aligned)
        if skipped is not None and not before:
            found.skipped.append(skipped)
        if not before and (found.leaves or found.random):
            self._explain(found, aligned, other)

    def _rows(self, step: int, other: int) -> tuple[list[CallRow], list[CallRow]]:
        return self._reference.rows(step, self._ranks[0]), self._target.rows(other, self._ranks[1])

    def _compare(self, mine: list[CallRow], theirs: list[CallRow]) -> tuple[StepOutcome, AlignedStep]:
        if self._modules is None:
            self._modules = match_modules(mine, theirs, self._options.renames)
        self._memory.begin_step(mine, theirs)
        aligned = align_step(mine, theirs, (self._modules.names(0), self._modules.names(1)))
        scale = self._options.tolerance_scale
        return compare_step(aligned, self._load, tolerance_scale=scale, memory=self._memory), aligned

    def _note_first(
        self, known: Correspondence, step: int, other: int, rows: tuple[Sequence[CallRow], Sequence[CallRow]]
    ) -> None:
        """Note what the first common step shows beside its values."""
        assert self._modules is not None
        known.renamed.extend(diff for diff in self._modules.renamed if diff not in known.renamed)
        shift = micro_steps(*rows, self._ranks[0])
        known.shifts.extend([shift] if shift else [])
        mine = _generators(self._reference, step, self._ranks[0])
        theirs = _generators(self._target, other, self._ranks[1])
        common = sorted(mine.keys() & theirs.keys())
        known.generators |= {name: (mine[name], theirs[name]) for name in common if mine[name] != theirs[name]}

    def _note_hyperparameters(self, known: Correspondence, step: int) -> None:
        optimizers = self._memory.optimizers
        names = {diff.name for diff in known.hyperparameters}
        new = [(diff.name, diff.reference, diff.target) for diff in optimizers.differences]
        if optimizers.names[0] != optimizers.names[1]:
            new.insert(0, ("class", *optimizers.names))
        known.hyperparameters.extend(
            HyperparameterDiff(
                step=step,
                rank=self._ranks[0],
                optimizer=optimizers.names[1],
                name=name,
                reference=mine,
                target=theirs,
                source=optimizers.sources[1],
            )
            for name, mine, theirs in new
            if name not in names
        )

    def _explain(self, found: Evidenced, aligned: AlignedStep, other: int) -> None:
        """Find out how data or parameters that differ are related, or with what state others were drawn."""
        known = found.correspondence
        if found.leaves:
            first = found.leaves[0]
            words = relation(first, aligned, self._load)
            if first.role != "data":
                known.parameters = words
            else:
                rank = self._ranks[1]
                known.data = words or batch_elsewhere(
                    first, other, self._target.steps(rank), lambda step: self._target.rows(step, rank)
                )
        elif found.random is not None:
            seqs = found.random.reference_seq, found.random.target_seq
            known.drawn_from = (_state(aligned.reference, seqs[0]), _state(aligned.target, seqs[1]))


def _generators(recording: RecordingLike, step: int, rank: int) -> dict[str, str]:
    return recording.step_info(step, rank).rng if isinstance(recording, HasStepInfo) else {}


def _state(calls: Sequence[Call], seq: int | None) -> str:
    return next((call.row.rng for call in calls if call.row.seq == seq), "")


def tensor_loader(reference: RecordingLike, target: RecordingLike) -> Load:
    """Return what loads the whole tensors of a pair of calls; nothing where no recording has any."""
    mine, theirs = (TensorReader(side) if side.has_tensors() else None for side in (reference, target))
    if mine is None and theirs is None:
        return lambda _reference, _target: None
    return lambda one, other: (
        _of(mine, one) if mine is not None else no_tensor,
        _of(theirs, other) if theirs is not None else no_tensor,
    )


def _of(reader: TensorReader, call: Call) -> Loader:
    """Return what loads a tensor of `call`; one that stands for a region has tensors of several rows."""
    if not call.homes:
        return reader.of(call.row)
    return lambda tensor: reader.of(call.row_of(tensor))(tensor)
