"""Compares one rank of two recordings step by step, and explains differences that lie before the operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from jumar.comparison.align.align import AlignedStep, align_step
from jumar.comparison.align.modules import ModuleMap, match_modules
from jumar.comparison.align.steps import micro_steps
from jumar.comparison.judge.memory import Memory
from jumar.comparison.judge.outputs import reduced_products
from jumar.comparison.measure.loading import tensor_loader
from jumar.comparison.measure.tolerance import NoiseFloor
from jumar.comparison.model.calls import Call
from jumar.comparison.model.correspondence import Correspondence, HyperparameterDiff
from jumar.comparison.model.held import held
from jumar.comparison.model.options import CompareOptions
from jumar.comparison.model.results import OperatorDiff
from jumar.comparison.walk.evidence import MAX_STRUCTURE, Evidenced, collect, ended
from jumar.comparison.walk.losses import loss_tolerance
from jumar.comparison.walk.origins import batch_elsewhere, carried_from, relation, transposed_parameters
from jumar.comparison.walk.skipped_updates import skipped_update, without_backward
from jumar.comparison.walk.step_walk import StepOutcome, compare_step
from jumar.comparison.walk.tally import LeftOut
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow, StepInfo

if TYPE_CHECKING:
    from jumar.comparison.model.frameworks.foreign import Foreign

OF_THE_HOST = frozenset({"python", "numpy"})
"""Generators that every process seeds otherwise. Their states mean something only where the program draws from them."""


@runtime_checkable
class HasStepInfo(Protocol):
    """A recording with facts about each step as a whole. Dumps of other tools may have none."""

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
        self._frameworks = _of_two_frameworks(reference, target)

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
        if outcome.foreign_operators and outcome.first is not None and not before:
            outcome.first = _told_inside(outcome.first, *rows)
        collect(found, outcome, step, is_first=is_first, options=self._options)
        if outcome.kind != "none":
            found.tally.add(aligned, outcome, rows, lambda: self._left_out(step, other, rows))
        known = found.correspondence
        known.structure.extend(aligned.structure[: MAX_STRUCTURE - len(known.structure)])
        self._note_hyperparameters(known, step)
        if is_first:
            self._note_first(known, step, other, rows)
            known.transposed = known.transposed or transposed_parameters(aligned)
            found.notes.extend(sentence for sentence in aligned.apart if sentence not in found.notes)
        if skipped is not None and not before:
            found.skipped.append(skipped)
        if not before and (found.leaves or found.random):
            self._explain(found, aligned, step, other)

    def _left_out(self, step: int, other: int, rows: tuple[Sequence[CallRow], Sequence[CallRow]]) -> LeftOut:
        """Return what budgets left out of the step on each side, and what dumps of other tools cannot hold."""
        runs = zip((self._reference, self._target), (step, other), self._ranks, strict=True)
        infos = [run.step_info(*at).not_kept if isinstance(run, HasStepInfo) else () for run, *at in runs]
        first, second = (any(what.startswith(("rows of operators", "all rows")) for what in info) for info in infos)
        both = self._reference.info, self._target.info
        kinds = held(both[0], both[1], rows[0]), held(both[1], both[0], rows[1])
        return LeftOut((first, second), any(infos), kinds)

    def _rows(self, step: int, other: int) -> tuple[list[CallRow], list[CallRow]]:
        return self._reference.rows(step, self._ranks[0]), self._target.rows(other, self._ranks[1])

    def _compare(self, reference: list[CallRow], target: list[CallRow]) -> tuple[StepOutcome, AlignedStep]:
        if self._modules is None:
            self._modules = match_modules(reference, target, self._options.renames, self._frameworks)
        self._memory.begin_step(reference, target)
        aligned = align_step(reference, target, (self._modules.names(0), self._modules.names(1)), self._frameworks)
        scale = self._options.tolerance_scale
        return compare_step(aligned, self._load, tolerance_scale=scale, memory=self._memory), aligned

    def _note_first(
        self, known: Correspondence, step: int, other: int, rows: tuple[Sequence[CallRow], Sequence[CallRow]]
    ) -> None:
        """Note what the first common step shows beside its values."""
        assert self._modules is not None
        known.renamed.extend(diff for diff in self._modules.renamed if diff not in known.renamed)
        infos = self._reference.info, self._target.info
        if infos[0].layers != infos[1].layers and not known.layers:
            from jumar.comparison.model.frameworks.layers import layer_differences

            names = self._modules.names(1)
            known.layers.extend(layer_differences(*infos, lambda path: names.place(path)[1]))
        shift = micro_steps(*rows, self._ranks[0])
        known.shifts.extend([shift] if shift else [])
        reference = _generators(self._reference, step, self._ranks[0])
        target = _generators(self._target, other, self._ranks[1])
        common = sorted(reference.keys() & target.keys())
        known.generators |= {
            name: (reference[name], target[name])
            for name in common
            if reference[name] != target[name] and (name not in OF_THE_HOST or self._drew_from(name))
        }

    def _drew_from(self, generator: str) -> bool:
        """Return whether a run drew from a generator in its recorded steps: its state changed.

        The first step does not count: a script seeds its generators within it.
        """
        return any(
            len({_generators(run, step, rank).get(generator) for step in run.steps(rank)[1:]}) > 1
            for run, rank in zip((self._reference, self._target), self._ranks, strict=True)
        )

    def _note_hyperparameters(self, known: Correspondence, step: int) -> None:
        names = {(diff.optimizer, diff.name) for diff in known.hyperparameters}
        for pair in self._memory.optimizers.pairs:
            new = [(diff.name, diff.reference, diff.target) for diff in pair.group(None).differences]
            if pair.names[0] != pair.names[1]:
                new.insert(0, ("class", *pair.names))
            known.hyperparameters.extend(
                HyperparameterDiff(
                    step=step,
                    rank=self._ranks[0],
                    optimizer=pair.names[1],
                    name=name,
                    reference=of_reference,
                    target=of_target,
                    source=pair.sources[1],
                )
                for name, of_reference, of_target in new
                if (pair.names[1], name) not in names
            )
            names |= {(pair.names[1], name) for name, _, _ in new}

    def _explain(self, found: Evidenced, aligned: AlignedStep, step: int, other: int) -> None:
        """Find out how data or parameters that differ are related, or with what state others were drawn."""
        known = found.correspondence
        if found.leaves and (words := self._carried(found, aligned, step, other)):
            read = found.leaves[0].call.row.seq
            diff = next((diff for diff in found.operators if (diff.step, diff.reference_seq) == (step, read)), None)
            if diff is not None:
                found.leaves, found.random = [], None
                found.first = replace(diff, status="diverge", note=words)
                return
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

    def _carried(self, found: Evidenced, aligned: AlignedStep, step: int, other: int) -> str:
        """Return which calls of the step before made the first leaf, where they are not the same on both sides."""
        runs = (self._reference, self._ranks[0], step - 1), (self._target, self._ranks[1], other - 1)
        if found.leaves[0].role != "data" or any(at not in run.steps(rank) for run, rank, at in runs):
            return ""
        reference, target = (run.rows(at, rank) for run, rank, at in runs)
        return carried_from(found.leaves[0], aligned, (reference, target))


def _told_inside(first: OperatorDiff, reference: Sequence[CallRow], target: Sequence[CallRow]) -> OperatorDiff:
    """Return the divergence of a module with what differs first inside it, by what operators calculate."""
    from jumar.comparison.align.inside import first_inside

    words = first_inside(first, reference, target) if first.kind == "module" and not first.note else ""
    return replace(first, note=words) if words else first


def _of_two_frameworks(reference: RecordingLike, target: RecordingLike) -> Foreign | None:
    if reference.info.framework == target.info.framework:
        return None
    from jumar.comparison.model.frameworks.foreign import foreign

    return foreign(reference.info, target.info)


def _generators(recording: RecordingLike, step: int, rank: int) -> dict[str, str]:
    return recording.step_info(step, rank).rng if isinstance(recording, HasStepInfo) else {}


def _state(calls: Sequence[Call], seq: int | None) -> str:
    return next((call.row.rng for call in calls if call.row.seq == seq), "")


SMALL = 0.01
"""Share of the norm of all gradients below which a gradient is judged against that share."""

NOTE = "its gradient differs; the operators that made it run on micro-batches of other sizes and were not compared"


def judge_gradients(outcome: StepOutcome, step: AlignedStep, number: int, coarsest: float) -> None:
    """Make the first parameter whose gradient differs by too much the first divergence of the step.

    `number` counts the steps from the first common one, `coarsest` is the coarsest epsilon the runs calculate in.
    """
    if not step.parameters_only or outcome.first is not None:
        return
    norms = {
        call.row.seq: call.inputs["input.grad"].l2 or 0.0 for call in step.reference if "input.grad" in call.inputs
    }
    whole = math.sqrt(sum(norm * norm for norm in norms.values()))
    tolerance = loss_tolerance(number, coarsest)
    for place, diff in enumerate(outcome.operators):
        norm = norms.get(diff.reference_seq if diff.reference_seq is not None else -1)
        error = next((tensor.error for tensor in diff.inputs if tensor.name == "input.grad"), None)
        if norm is None or error is None:
            continue
        allowed = tolerance * max(1.0, SMALL * whole / norm) if norm else math.inf
        if error > allowed:
            outcome.first = _diverging(diff, error, allowed)
            outcome.operators.replace(place, outcome.first)
            return


def _diverging(diff: OperatorDiff, error: float, allowed: float) -> OperatorDiff:
    gradient = tuple(tensor for tensor in diff.inputs if tensor.name == "input.grad")
    return replace(
        diff,
        status="diverge",
        error=error,
        tolerance=allowed,
        tolerance_origin="the loss's tolerance of this step",
        outputs=gradient,
        inputs=(),
        note=NOTE,
    )
