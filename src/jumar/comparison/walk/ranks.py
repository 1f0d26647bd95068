"""Compares what all ranks of a data-parallel run must share: parameters, and gradients after their reduction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jumar.comparison.measure.distances import measure
from jumar.comparison.model.calls import plain_path
from jumar.comparison.model.correspondence import RankDiff
from jumar.comparison.model.options import CompareOptions
from jumar.comparison.walk.evidence import Evidenced
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow, TensorRow

EQUAL = 1e-6
"""Relative difference up to which two ranks hold the same: they got the same bytes, statistics may be summed apart."""

COLLECTIVES = ("allreduce", "all_reduce", "reduce_scatter", "all_gather", "allgather", "broadcast")
"""Words in the names of operators that make ranks hold the same."""

Side = Literal["reference", "target"]
Named = dict[str, TensorRow]


def is_collective(name: str) -> bool:
    """Return whether an operator makes ranks hold the same."""
    return any(word in name for word in COLLECTIVES)


@dataclass(frozen=True, slots=True)
class RankState:
    """What one rank holds in one step."""

    start: Named
    """Parameters when the step began."""
    gradients: Named
    """As the optimizer read them."""
    end: Named
    """Parameters after the step."""
    data: Named
    """What the forward pass read from outside, parameters left out."""
    collectives: Mapping[str, int]


def state_of(rows: Sequence[CallRow]) -> RankState:
    """Return what a rank holds, from the rows of a step; without `parameter` rows, gradients of the operators."""
    parameters = [row for row in rows if row.kind == "parameter"]
    end = {_name(row): tensor for row in parameters for tensor in row.outputs if tensor.name == "output.0"}
    gradients = {_name(row): tensor for row in parameters for tensor in row.inputs if tensor.name == "input.grad"}
    updated = {tensor.storage for tensor in end.values()}
    if not parameters:
        updates = [row for row in rows if row.kind == "op" and row.phase == "optimizer"]
        updated = {tensor.storage for row in updates for tensor in row.outputs}
        gradients = _gradients(updates, updated, rows)
    start, data = _read_from_outside(rows, updated)
    collectives = Counter(row.name for row in rows if is_collective(row.name))
    return RankState(start, gradients, end, data, collectives)


def _name(row: CallRow) -> str:
    path = plain_path(row.module_path)
    return f"{path}.{row.name}" if path else row.name


def _gradients(updates: Iterable[CallRow], updated: set[int], rows: Iterable[CallRow]) -> Named:
    """Return what the optimizer's operators read of what the backward pass wrote."""
    owners = {
        tensor.storage: plain_path(row.module_path) for row in rows if row.phase == "backward" for tensor in row.outputs
    }
    return {
        f"gradient in {owners[tensor.storage] or 'the root'} {list(tensor.shape)}": tensor
        for row in updates
        for tensor in row.inputs
        if tensor.storage in owners and tensor.storage not in updated
    }


def _read_from_outside(rows: Iterable[CallRow], updated: set[int]) -> tuple[Named, Named]:
    parameters: Named = {}
    data: Named = {}
    seen: set[int] = set()
    for row in rows:
        if row.kind != "op" or row.phase != "forward":
            continue
        for tensor in row.inputs:
            if tensor.storage and tensor.storage not in seen:
                of = parameters if tensor.storage in updated else data
                of[f"{plain_path(row.module_path)} {tensor.name} of {row.name}/{row.occurrence}".strip()] = tensor
        seen.update(tensor.storage for tensor in (*row.inputs, *row.outputs))
    return parameters, data


def compare_ranks(recording: RecordingLike, side: Side, pair: tuple[int, int], step: int) -> list[RankDiff]:
    """Return what must be equal on two ranks of one run in a step and differs, in the order of the causes."""
    first, second = (state_of(recording.rows(step, rank)) for rank in pair)
    found: list[RankDiff] = []

    def add(
        kind: Literal["gradients", "parameters", "data", "collectives"], names: Iterable[str], **figures: float
    ) -> None:
        found.append(RankDiff(kind=kind, side=side, step=step, ranks=pair, names=tuple(names), **figures))  # type: ignore[arg-type]  # error, num_equal, reduced

    start, num_equal = _different(first.start, second.start)
    if start:
        add("parameters", start, error=max(start.values()), num_equal=num_equal)
    data, num_equal = _different(first.data, second.data)
    if num_equal and not data and any(tensor.shape for tensor in first.data.values()):
        add("data", first.data, num_equal=num_equal)
    if first.collectives != second.collectives:
        names = {*first.collectives, *second.collectives}
        add("collectives", sorted(n for n in names if first.collectives.get(n) != second.collectives.get(n)))
    gradients, num_equal = _different(first.gradients, second.gradients)
    if gradients:
        reduced = any("reduce" in name for name in first.collectives)
        add("gradients", gradients, error=max(gradients.values()), num_equal=num_equal, reduced=reduced)
    elif not start:
        end, num_equal = _different(first.end, second.end)
        if end:
            add("parameters", end, error=max(end.values()), num_equal=num_equal)
    return found


def _different(first: Named, second: Named) -> tuple[dict[str, float], int]:
    """Return the tensors that differ with their relative errors, and the number of those that agree."""
    errors: dict[str, float] = {}
    num_equal = 0
    for name, tensor in first.items():
        other = second.get(name)
        if other is None or other.shape != tensor.shape:
            continue
        found = measure(tensor, other)
        if found.known:
            error = found.error()
            num_equal += error <= EQUAL
            if error > EQUAL:
                errors[name] = error
    return errors, num_equal


def only_in_target(reference: Sequence[RankDiff], target: Sequence[RankDiff]) -> list[RankDiff]:
    """Return what differs between the target's ranks and is equal on the reference's. (Sharded parameters differ in
    both.)"""
    known = {(diff.kind, name) for diff in reference for name in diff.names}
    return [diff for diff in target if not all((diff.kind, name) in known for name in diff.names)]


def compare_ranks_of_one(found: Evidenced, options: CompareOptions) -> None:
    """Compare what must be equal on ranks of one recording, step by step until something differs."""
    found.correspondence.ranks_only = True
    first, end = options.steps or (0, 1 << 62)
    for pair in options.rank_pairs:
        common = sorted(set.intersection(*(set(found.reference.steps(rank)) for rank in pair)))
        for step in (step for step in common if first <= step < end):
            found.steps.append(step)
            found.correspondence.ranks.extend(compare_ranks(found.reference, "target", pair, step))
            if any(diff.kind != "data" for diff in found.correspondence.ranks) and not options.all_steps:
                break


def compare_ranks_of_both(found: Evidenced, ranks: Sequence[int]) -> None:
    """Look for what differs between the target's ranks and is equal on the reference's, in the first common step."""
    step = found.steps[0]
    for other in ranks[1:]:
        pair = ranks[0], other
        reference = compare_ranks(found.reference, "reference", pair, step)
        target = compare_ranks(found.target, "target", pair, step)
        found.correspondence.ranks.extend(only_in_target(reference, target))
