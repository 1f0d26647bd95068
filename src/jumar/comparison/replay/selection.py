"""Selects the rows that are replayed, and finds the row of the reference for a row of the target."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from jumar.base.errors import RecordingError, UsageError
from jumar.comparison.align.align import align_step
from jumar.comparison.align.modules import match_modules
from jumar.comparison.model.calls import argument_differences, calls_of, same_operator
from jumar.comparison.model.kinds import ADOPTING, UNINITIALISED
from jumar.comparison.replay.rebuilt.execute import Inputs
from jumar.comparison.replay.rebuilt.invocation import TensorAt
from jumar.comparison.replay.rebuilt.refusal import NotReplayable
from jumar.operators import canonical_name
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow

EVERYTHING = ("*",)


class Selection:
    """Rows of a recording by step and rank. Raises RecordingError without tensors, UsageError when nothing matches."""

    def __init__(
        self, recording: RecordingLike, keys: Sequence[str] | None = None, steps: tuple[int, int] | None = None
    ) -> None:
        if not recording.has_tensors():
            raise RecordingError(
                f"{recording.path} holds no tensors to replay from. Record with --values tensors, or with --tensors-of "
                "for some operators only."
            )
        self._recording = recording
        self._patterns = tuple(keys) if keys else EVERYTHING
        first, end = steps or (0, 1 << 62)
        self._steps = [
            (step, rank) for rank in recording.ranks for step in recording.steps(rank) if first <= step < end
        ]
        self._rows = {place: self._of_step(*place) for place in self._steps}
        if not len(self):
            raise UsageError(
                f"no operator of {recording.path} {_among(steps)}matches {', '.join(self._patterns)}. Give a row key "
                "(op/forward/blocks.1.*/aten::gelu/0), an operator (aten::addmm) or a glob over these."
            )

    def __len__(self) -> int:
        return sum(len(seqs) for seqs in self._rows.values())

    def __iter__(self) -> Iterator[tuple[int, int, list[CallRow]]]:
        """Yield step, rank and the rows of it that are selected, one step in memory at a time."""
        for (step, rank), seqs in self._rows.items():
            if seqs:
                yield step, rank, [row for row in self._recording.rows(step, rank) if row.seq in seqs]

    def _of_step(self, step: int, rank: int) -> set[int]:
        rows = self._recording.rows(step, rank)
        return {row.seq for row in rows if row.kind == "op" and any(matches(row, p) for p in self._patterns)}


def matches(row: CallRow, pattern: str) -> bool:
    """Return whether a row key, operator name or module path matches a glob, with a step prefix such as `3:` or not."""
    step, colon, rest = pattern.partition(":")
    if colon and step.isdigit() and not rest.startswith(":"):
        if int(step) != row.step:
            return False
        pattern = rest
    names = (row.key, row.name, row.name.partition(".")[0])
    return any(name == pattern or fnmatchcase(name, pattern) for name in names)


def _among(steps: tuple[int, int] | None) -> str:
    return f"in steps {steps[0]}:{steps[1]} " if steps is not None else ""


_COLLECTIVES = ("c10d::", "_c10d_functional::", "_c10d_functional_autograd::", "c10d_functional::")


def check(row: CallRow) -> None:
    """Raise NotReplayable for a row that is no calculation of its recorded inputs."""
    if row.name.startswith(_COLLECTIVES):
        raise NotReplayable("collective", f"{row.name} is a collective: its result depends on the other ranks")
    name = canonical_name(row.name)
    if name in UNINITIALISED:
        raise NotReplayable("uninitialised", f"{row.name} returns memory as it is, not a result")
    if name in ADOPTING:
        raise NotReplayable("other", f"{row.name} shows memory that comes from elsewhere")
    if not row.outputs:
        raise NotReplayable("no tensor result", f"{row.name} returns no tensor that was recorded")


def partners(reference: Sequence[CallRow], target: Sequence[CallRow]) -> dict[int, CallRow]:
    """Return, by the `seq` of rows of the target, the rows of the reference: calls of the same operator only."""
    found: dict[int, CallRow] = {}
    modules = match_modules(reference, target)
    for pair in align_step(reference, target, (modules.names(0), modules.names(1))).pairs:
        if pair.reference is None or pair.target is None or pair.target.row.kind != "op":
            continue
        if same_operator(pair.reference, pair.target) and (pair.reference.item is None) == (pair.target.item is None):
            found.setdefault(pair.target.row.seq, pair.reference.row)
    return found


def with_tensors_of(target: Inputs, reference: Inputs) -> Inputs | None:
    """Return the target's call with the reference's tensors; None when they do not fit its arguments.

    Shapes may differ in nothing, dtypes in anything: the truth is float64 on both sides.
    """
    of_reference = {name: value for name, value in reference.invocation.values.items() if _holds_tensor(value)}
    of_target = {name: value for name, value in target.invocation.values.items() if _holds_tensor(value)}
    if of_reference.keys() != of_target.keys() or reference.only != target.only:
        return None
    shapes = [tensor.shape for tensor in reference.invocation.tensors]
    if shapes != [tensor.shape for tensor in target.invocation.tensors]:
        return None
    invocation = target.invocation.with_values(of_reference)
    return Inputs(target.row, invocation, reference.arrays, target.only)


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, TensorAt) or (isinstance(value, list) and any(isinstance(v, TensorAt) for v in value))


def other_arguments(reference: CallRow, target: CallRow) -> dict[str, tuple[Any, Any]]:
    """Return the scalar arguments that differ, by name: reference, target."""
    first, second = next(iter(calls_of([reference])), None), next(iter(calls_of([target])), None)
    if first is None or second is None:
        return {}
    try:
        return {diff.name: (diff.reference, diff.target) for diff in argument_differences(first, second)}
    except json.JSONDecodeError:
        return {}
