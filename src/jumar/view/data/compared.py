"""A comparison as a tree of modules that a script draws, and one call of it with both sides' tensors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jumar.base.text.digits import Cell, number_text
from jumar.comparison import Comparison, OperatorDiff
from jumar.comparison.diagnosis import Diagnosis
from jumar.comparison.diagnosis.rows import Both, named
from jumar.comparison.measure.distances import sketch_distance
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import TensorRow
from jumar.show.blocks.page import Block, Column, Heat, Table
from jumar.show.compare.page.divergence import divergence
from jumar.show.views.heat import ColourScale

ROOT = "(root)"
TOLD = ("diverge", "random", "not-compared")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A comparison with what it was made of. `recordings` is None where they are not at hand."""

    comparison: Comparison
    diagnosis: Diagnosis | None = None
    recordings: tuple[RecordingLike, RecordingLike] | None = None
    is_saved: bool = False
    """Read from a file, which holds the first operators that diverge only."""

    calls: Sequence[OperatorDiff] = ()
    """The calls of the tree, in the order of execution, the first divergence among them."""
    first: int | None = None
    """Index of the first divergence among the calls."""

    @classmethod
    def of(
        cls, comparison: Comparison, diagnosis: Diagnosis | None = None,
        recordings: tuple[RecordingLike, RecordingLike] | None = None, *, is_saved: bool = False,
    ) -> Compared:  # fmt: skip
        """Return a comparison with its calls. A first divergence that only one side runs is put in its place."""
        calls = list(comparison.operators)
        first = comparison.first_divergence
        index = next((at for at, one in enumerate(calls) if _place(one) == _place(first)), None) if first else None
        if first is not None and index is None:
            index = next((at for at, one in enumerate(calls) if _is_later(one, first)), len(calls))
            calls.insert(index, first)
        return cls(
            comparison=comparison, diagnosis=diagnosis, recordings=recordings, is_saved=is_saved, calls=calls,
            first=index,
        )  # fmt: skip

    @property
    def steps(self) -> list[int]:
        """The steps of which calls are at hand."""
        return sorted({diff.step for diff in self.calls})


def _place(diff: OperatorDiff | None) -> tuple[Any, ...]:
    return () if diff is None else (diff.step, diff.rank, diff.reference_seq, diff.target_seq)


def _is_later(one: OperatorDiff, first: OperatorDiff) -> bool:
    """Tell whether a call comes after one that may be on one side only."""
    if (one.rank, one.step) != (first.rank, first.step):
        return (one.rank, one.step) > (first.rank, first.step)
    pairs = ((one.reference_seq, first.reference_seq), (one.target_seq, first.target_seq))
    return any(at is not None and other is not None and at > other for at, other in pairs)


@dataclass(slots=True)
class _Node:
    label: str
    children: dict[str, _Node] = field(default_factory=dict)
    value: float | None = None
    statuses: Counter[str] = field(default_factory=Counter)
    call: int = -1
    is_first: bool = False


def tree_json(compared: Compared, step: int | None) -> dict[str, Any]:
    """Return the tree of one step (None: all) as rows in depth-first order: depth, label, colour, value, note, call.

    `call` is the index of a call, -1 of a module; `first` is the row of the first divergence, or -1.
    """
    root = _Node("")
    for index, diff in enumerate(compared.calls):
        if step is None or diff.step == step:
            _add(root, index, diff, index == compared.first)
    scale = ColourScale(Heat(title="", unit="", values=[("", node.value) for _, node in _walk(root, 0)]))
    rows = [_row(depth, node, scale) for depth, node in _walk(root, 0)]
    places = [number for number, (_, node) in enumerate(_walk(root, 0)) if node.is_first and node.call >= 0]
    values = [("", node.value) for _, node in _walk(root, 0)]
    legend = [[entry.css, entry.label] for entry in scale.legend(values)]
    return {"rows": rows, "legend": legend, "first": places[0] if places else -1}


def _add(root: _Node, index: int, diff: OperatorDiff, is_first: bool) -> None:
    path = [diff.phase, *(diff.module_path.split(".") if diff.module_path else [ROOT])]
    leaf = f"{diff.name} {diff.kind} {diff.occurrence} {diff.step} {diff.rank}"
    label = f"{diff.name}{f' #{diff.occurrence}' if diff.occurrence else ''}"
    node, way = root, []
    for part in path:
        node = node.children.setdefault(part, _Node(part))
        way.append(node)
    call = node.children.setdefault(leaf, _Node(label))
    call.call = index
    for one in (*way, call):
        one.statuses[diff.status] += 1
        one.is_first |= is_first
        if diff.error is not None and diff.status != "not-compared":
            one.value = diff.error if one.value is None else max(one.value, diff.error, key=_size)


def _size(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _walk(node: _Node, depth: int) -> Iterator[tuple[int, _Node]]:
    for child in node.children.values():
        yield depth, child
        yield from _walk(child, depth + 1)


def _row(depth: int, node: _Node, scale: ColourScale) -> list[Any]:
    if node.call >= 0:
        (note,) = node.statuses
    else:
        note = ", ".join(f"{node.statuses[status]:,} {status}" for status in TOLD if node.statuses[status])
    value = "" if node.value is None else number_text(node.value, 3)
    return [depth, node.label, scale.css(node.value), value, note, node.call]


def call_blocks(compared: Compared, index: int, within: Path) -> list[Block]:
    """Return everything about one call: facts, lines of the source in the folder `within`, tensors, pictures.

    Raises IndexError for a call that there is not, RecordingError where its step is damaged.
    """
    diff = compared.calls[index]
    section = divergence(replace(compared.comparison, first_divergence=diff), compared.recordings, (), within)
    blocks = list(section.blocks) if section is not None else []
    return [*blocks, *_sides(diff, compared.recordings)]


def _sides(diff: OperatorDiff, recordings: tuple[RecordingLike, RecordingLike] | None) -> list[Block]:
    """Return both sides' statistics, and how far their sketches are apart."""
    if recordings is None:
        return []
    reference, target = Both(*recordings).pair(diff)
    sides = [{**named(row.inputs), **named(row.outputs)} if row is not None else {} for row in (reference, target)]
    names = [*sides[0], *(name for name in sides[1] if name not in sides[0])]
    rows: list[list[Cell]] = []
    for name in names:
        pair = sides[0].get(name), sides[1].get(name)
        distance = _sketched(*pair)
        for side, tensor in zip(("reference", "target"), pair, strict=True):
            if tensor is not None:
                rows.append([name, side, *statistics(tensor), distance])
    columns = [Column(title="tensor"), Column(title="side"), *STATISTICS, Column(title="sketch distance", number=True)]
    return [Table(title="Both sides' statistics", columns=columns, rows=rows)] if rows else []


def _sketched(reference: TensorRow | None, target: TensorRow | None) -> float | None:
    """Return the estimated distance of two tensors relative to the reference's norm; None where it is not known."""
    if reference is None or target is None or reference.sketch is None or target.sketch is None:
        return None
    found = sketch_distance(reference.sketch, target.sketch).estimate
    return found / reference.l2 if reference.l2 else (0.0 if not found else math.inf)


STATISTICS: Sequence[Column] = (
    Column(title="shape"),
    Column(title="dtype"),
    *(Column(title=title, number=True) for title in ("minimum", "maximum", "mean", "L2 norm", "NaN", "Inf")),
)


def statistics(tensor: TensorRow) -> list[Cell]:
    """Return the cells of `STATISTICS`."""
    shape = "×".join(map(str, tensor.shape)) or "scalar"
    numbers: list[Cell] = [tensor.minimum, tensor.maximum, tensor.mean, tensor.l2, tensor.num_nan, tensor.num_inf]
    return [shape, tensor.dtype, *numbers]
