"""Two checkpoints side by side: `parameter_table`, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jumar.comparison.model.renames import rename_lines
from jumar.comparison.model.results import Comparison, OperatorDiff, UnmatchedCall
from jumar.comparison.walk.evidence import Evidenced
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow

PREFIX = "parameter::"
BUFFERS = frozenset({"running_mean", "running_var", "num_batches_tracked", "moving_mean", "moving_variance"})
"""Names of what no optimizer trains."""

Status = Literal["agrees", "differs", "other shape", "reference only", "target only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterPair:
    """A parameter of both checkpoints, or of one of them; names as the files have them."""

    reference: str
    """Empty where only the target has it."""
    target: str
    reference_shape: tuple[int, ...] | None
    target_shape: tuple[int, ...] | None
    is_trainable: bool
    """By its name: a running mean is none."""
    status: Status
    error: float | None = None
    """Relative L2 difference."""
    note: str = ""


def are_checkpoints(*recordings: RecordingLike) -> bool:
    """Tell whether all of these are checkpoints."""
    return all(recording.info.environment.get("format") == "checkpoint" for recording in recordings)


def parameter_table(comparison: Comparison, reference: RecordingLike, target: RecordingLike) -> list[ParameterPair]:
    """Return every parameter of the model (step 0) of two checkpoints, in the reference's order; then the target's own.

    An optimizer's state, which some checkpoints hold beside the model, is left out.
    """
    rows = [recording.rows(0) if 0 in recording.steps() else [] for recording in (reference, target)]
    partner: dict[int, OperatorDiff] = {}
    for diff in comparison.operators:
        if diff.step == 0 and diff.reference_seq is not None and diff.target_seq is not None:
            partner[diff.reference_seq] = diff
    names = [getattr(recording, "original_names", {}) for recording in (reference, target)]
    found = []
    for row in rows[0]:
        own = partner.get(row.seq)
        other = rows[1][own.target_seq] if own is not None and own.target_seq is not None else None
        found.append(_pair(row, other, own, names))
    taken = {diff.target_seq for diff in partner.values()}
    found += [_pair(None, row, None, names) for row in rows[1] if row.seq not in taken]
    return found


def _pair(
    row: CallRow | None, other: CallRow | None, diff: OperatorDiff | None, names: Sequence[dict[str, str]]
) -> ParameterPair:
    status: Status = "agrees"
    if row is None or other is None or diff is None:
        status = "target only" if row is None else "reference only"
    elif row.outputs[0].shape != other.outputs[0].shape:
        status = "other shape"
    elif diff.status != "agree" and (diff.error is None or diff.error > (diff.tolerance or 0.0)):
        status = "differs"
    one, two = (full_name(side) if side is not None else "" for side in (row, other))
    return ParameterPair(
        reference=names[0].get(one, one),
        target=names[1].get(two, two),
        reference_shape=row.outputs[0].shape if row is not None else None,
        target_shape=other.outputs[0].shape if other is not None else None,
        is_trainable=(one or two).rpartition(".")[2] not in BUFFERS,
        status=status,
        error=diff.error if diff is not None and status == "differs" else None,
        note=_relation(row, other) if status == "other shape" and row is not None and other is not None else "",
    )


def _relation(row: CallRow, other: CallRow) -> str:
    """Return that a shape is the other one transposed, and whether the values may be the same."""
    first, second = row.outputs[0], other.outputs[0]
    if sorted(first.shape) != sorted(second.shape):
        return ""
    same = first.l2 is not None and second.l2 is not None and math.isclose(first.l2, second.l2, rel_tol=1e-6)
    return "axes in another order, equal norm" if same else "axes in another order"


def full_name(row: CallRow | OperatorDiff | UnmatchedCall) -> str:
    """Return the name of a parameter with its module's path."""
    name = row.name if isinstance(row, (CallRow, UnmatchedCall)) else row.reference_name or row.target_name
    return ".".join(filter(None, (row.module_path, name.removeprefix(PREFIX))))


def checkpoint_headline(found: Evidenced) -> str:
    """Return in one sentence how two checkpoints differ."""
    judged = [diff for diff in found.operators.judged() if diff.status != "agree" and _is_beyond(diff)]
    parts = []
    if judged:
        first = judged[0]
        shapes = next(((t.shape, t.target_shape) for t in first.outputs if t.shape != t.target_shape), None)
        how = f"shape {list(shapes[0])} against {list(shapes[1])}" if shapes else f"by {first.error or 0:.3g}"
        verb = "differs" if len(judged) == 1 else "differ"
        parts.append(f"{len(judged):,} of {len(found.operators):,} parameters {verb}, first {full_name(first)} ({how})")
    for side, calls in (("reference", found.unmatched_reference), ("target", found.unmatched_target)):
        if calls:
            shown = ", ".join(full_name(call) for call in calls[:3]) + (", …" if len(calls) > 3 else "")
            parts.append(f"only the {side} has {shown}")
    return f"The checkpoints differ: {'; '.join(parts)}." if parts else ""


def _is_beyond(diff: OperatorDiff) -> bool:
    shapes = any(tensor.shape != tensor.target_shape for tensor in diff.outputs)
    return shapes or diff.error is None or diff.error > (diff.tolerance or 0.0)


def table_json(pairs: Iterable[ParameterPair]) -> list[dict[str, Any]]:
    """Return the table for a JSON document."""
    return [asdict(pair) for pair in pairs]


def proposed_renames(comparison: Comparison, pairs: Sequence[ParameterPair]) -> str:
    """Return a file for `--rename`: what was recognised, and for what has no partner candidates of the same shape.

    Candidates are comments, to be edited: a shape alone proves nothing.
    """
    lines = ["# reference -> target; edit it and give it to jumar compare --rename FILE"]
    renamed = next((finding for finding in comparison.findings if finding.code == "JM312"), None)
    if renamed is not None and isinstance(pairs_of := renamed.evidence.get("pairs"), list):
        lines.append(rename_lines((str(pair[0]), str(pair[1])) for pair in pairs_of if isinstance(pair, list)))
    lines += _candidates(pairs)
    return "\n".join(lines) + "\n"


def _candidates(pairs: Sequence[ParameterPair]) -> Iterator[str]:
    left = [pair for pair in pairs if pair.status == "target only"]
    for pair in pairs:
        if pair.status != "reference only":
            continue
        same = [other for other in left if other.target_shape == pair.reference_shape]
        shape = list(pair.reference_shape or ())
        path, _, name = pair.reference.rpartition(".")
        for other in same[:3]:
            other_path, _, other_name = other.target.rpartition(".")
            if path != other_path:
                yield f"# {path or '.'} -> {other_path or '.'}    # {pair.reference} and {other.target}, both {shape}"
            else:
                yield f"# parameter {name} -> {other_name}    # in {path or 'the root'}, both {shape}"
        if not same:
            yield f"# {pair.reference} {shape} has no partner of its shape"
