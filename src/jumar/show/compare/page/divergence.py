"""The first divergence: its figures, its line in the source, its tensors as pictures, and what replaying says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jumar.base.text.digits import Cell
from jumar.comparison import Comparison, OperatorDiff, Spot, TensorDiff
from jumar.comparison.replay import Replayed
from jumar.recording.reader import RecordingLike
from jumar.show.blocks.page import Block, Column, KeyValues, Section, Table
from jumar.show.compare.page.pictures import pictures
from jumar.show.compare.sources import excerpts


def divergence(
    comparison: Comparison,
    recordings: tuple[RecordingLike, RecordingLike] | None,
    replayed: Sequence[Replayed],
    within: Path | None = None,
) -> Section | None:
    """Return everything about the first operator that differs; None where there is none.

    Lines of sources are shown of files in the folder `within`, if one is given.
    """
    diff = comparison.first_divergence
    if diff is None:
        return None
    blocks: list[Block] = [KeyValues(items=_facts(diff))]
    if recordings is not None:
        blocks += excerpts(diff, recordings, within)
    blocks.append(_tensors([*diff.inputs, *diff.outputs]))
    if recordings is not None:
        blocks += pictures(diff, recordings)
    if replayed:
        blocks.append(_replayed(replayed))
    return Section(title="First divergence", blocks=blocks)


def _facts(diff: OperatorDiff) -> list[tuple[str, Cell]]:
    items: list[tuple[str, Cell]] = [
        ("operator", diff.name),
        ("module", f"{diff.module_path or '(none)'} {diff.module_type}".strip()),
        ("phase and step", f"{diff.phase}, step {diff.step}"),
        ("source", diff.source or "not recorded"),
        ("other arguments", "; ".join(map(str, diff.arguments)) or "none"),
        ("error", _bounded(diff)),
        ("tolerance", diff.tolerance),
    ]
    if diff.floor is not None and diff.reference_name and diff.target_name:
        items.append(("noise floor", diff.floor))
    items += [("where the tolerance comes from", diff.tolerance_origin), ("error of its inputs", diff.inherited)]
    if diff.note:
        items.append(("note", diff.note))
    return items


def _bounded(diff: OperatorDiff) -> str:
    if diff.error is None:
        return "not known"
    bound = "≥ " if diff.outputs and diff.outputs[0].evidence == "statistics" else ""
    return f"{bound}{diff.error:.3g}"


def _tensors(tensors: Sequence[TensorDiff]) -> Table:
    columns = [
        Column(title="tensor"),
        Column(title="shape"),
        Column(title="dtype"),
        Column(title="error", number=True),
        Column(title="cosine", number=True, digits=7),
        Column(title="L2 relative", number=True),
        Column(title="greatest difference"),
    ]
    broken = any(tensor.num_nonfinite or tensor.target_num_nonfinite for tensor in tensors)
    if broken:
        columns.append(Column(title="NaN or Inf"))
    known = {tensor.evidence for tensor in tensors} - {"none"}
    title = (
        f"Its tensors, known from {' and '.join(SEEN.get(one, one) for one in sorted(known))}"
        if known
        else "Its tensors"
    )
    rows = [
        [*_tensor(tensor), *([f"{tensor.num_nonfinite} / {tensor.target_num_nonfinite}"] if broken else [])]
        for tensor in tensors
    ]
    return Table(title=title, columns=columns, rows=rows)


SEEN = {"tensors": "whole tensors"}


def _tensor(tensor: TensorDiff) -> list[Cell]:
    whole = tensor.evidence == "tensors"
    cosine: Cell = "not known" if tensor.cosine is None and not whole else tensor.cosine
    if tensor.l2_relative is not None:
        l2: Cell = tensor.l2_relative
    else:
        l2 = None if whole else _at_least(tensor.l2_relative_at_least)
    return [
        tensor.name,
        "×".join(map(str, tensor.shape)) or "scalar",
        tensor.dtype if tensor.dtype == tensor.target_dtype else f"{tensor.dtype} / {tensor.target_dtype}",
        tensor.error,
        cosine,
        l2,
        _spot(tensor.max_abs) if whole else _at_least(tensor.max_abs_at_least),
    ]


def _spot(spot: Spot | None) -> str:
    if spot is None:
        return "0"
    index = ", ".join(map(str, spot.index))
    return f"{spot.difference:.3g} at [{index}]: {spot.reference:.6g} / {spot.target:.6g}"


def _at_least(value: float | None) -> str:
    if value is None:
        return "not known"
    return f"≥ {value:.3g}" if value else "none seen"


def _replayed(replayed: Sequence[Replayed]) -> Table:
    columns = [
        Column(title="operator", code=True),
        Column(title="own error", number=True),
        Column(title="the reference's", number=True),
        Column(title="inherited", number=True),
        Column(title="rounding", number=True),
        Column(title="verdict"),
    ]
    rows: list[list[Cell]] = [
        [
            " ".join(part for part in (one.row.module_path, one.row.name) if part),
            one.own_error,
            one.reference_error,
            one.inherited,
            one.tolerance,
            f"{one.verdict}: {one.note}" if one.note and one.cause is not None else one.verdict,
        ]
        for one in replayed
    ]
    return Table(title="Executed again in float64 from the recorded inputs", columns=columns, rows=rows)
