"""Histograms and pictures of the tensors that differ, from whole tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from jumar.comparison import OperatorDiff
from jumar.comparison.diagnosis.rows import Both
from jumar.recording.reader import RecordingLike
from jumar.show.blocks.page import Block, Text
from jumar.show.blocks.pictures import Counts, Histogram, Raster

BINS = 48
MOST_ROWS, MOST_COLUMNS = 48, 96
"""Cells of a picture; each stands for the greatest difference of a block."""
MOST_TENSORS = 2
ARROW = " → "
"""Between the names of an input and an output of one call: there the input stands for the reference."""

Floats = npt.NDArray[np.float64]


def pictures(diff: OperatorDiff, recordings: tuple[RecordingLike, RecordingLike]) -> list[Block]:
    """Return pictures of the outputs that differ; a sentence where no whole tensors are at hand."""
    both = Both(*recordings)
    reference, target = both.pair(diff)
    blocks: list[Block] = []
    for name, a, b in _arrays(both, reference, target)[:MOST_TENSORS]:
        blocks += _of_pair(name, a, b)
    if not blocks:
        blocks.append(Text(text="Whole tensors of this call were not recorded, so there are no pictures of them."))
    return blocks


def _arrays(both: Both, reference: Any, target: Any) -> list[tuple[str, Floats, Floats]]:
    """Return (name, reference, target) of outputs that differ; of a call that one run has, its input and output."""
    if reference is None or target is None:
        row, of_target = (target, True) if target is not None else (reference, False)
        tensors = both.tensors(row, of_target=of_target)
        output = next((name for name in tensors if not name.startswith("input")), None)
        read = next(
            (n for n in tensors if n.startswith("input") and output and tensors[n].shape == tensors[output].shape), None
        )
        if output is None or read is None:
            return []
        return [(f"{read}{ARROW}{output}", _floats(tensors[read]), _floats(tensors[output]))]
    first, second = both.tensors(reference, of_target=False), both.tensors(target, of_target=True)
    names = [n for n in first if n in second and first[n].shape == second[n].shape and not n.startswith("input")]
    pairs = [(name, _floats(first[name]), _floats(second[name])) for name in names]
    return [(name, a, b) for name, a, b in pairs if a.size > 1 and not np.array_equal(a, b, equal_nan=True)]


def _floats(array: npt.NDArray[Any]) -> Floats:
    return np.abs(array).astype(np.float64) if np.iscomplexobj(array) else array.astype(np.float64)


def _of_pair(name: str, a: Floats, b: Floats) -> list[Block]:
    first, second = ("input", "output") if ARROW in name else ("reference", "target")
    finite = np.isfinite(a) & np.isfinite(b)
    left = int(a.size - np.count_nonzero(finite))
    note = f"{left:,} elements are NaN or Inf on a side and are not in it." if left else ""
    with np.errstate(invalid="ignore", over="ignore"):
        d = b - a
    blocks: list[Block] = []
    if finite.any():
        blocks += [
            _histogram(f"Values of {name}", "value", {first: a[finite], second: b[finite]}, note),
            _histogram(f"Difference of {name}, {second} − {first}", "difference", {"difference": d[finite]}, ""),
        ]
    blocks.append(_raster(f"Where {name} differs, {second} − {first}", d))
    return blocks


def _histogram(title: str, x_label: str, values: dict[str, Floats], note: str) -> Histogram:
    low = min(float(array.min()) for array in values.values())
    high = max(float(array.max()) for array in values.values())
    margin = max(abs(low), abs(high), 1e-300) * 1e-9
    if high - low <= margin:
        low, high = low - max(abs(low) * 0.05, 1e-12), high + max(abs(high) * 0.05, 1e-12)
    edges = np.linspace(low, high, BINS + 1)
    series = [
        Counts(name=name, counts=[int(count) for count in np.histogram(array, edges)[0]])
        for name, array in values.items()
    ]
    return Histogram(title=title, x_label=x_label, edges=[float(e) for e in edges], series=series, note=note)


def _raster(title: str, d: Floats) -> Raster:
    matrix, rows, columns = _matrix(d)
    pooled = _pooled(_pooled(matrix, MOST_ROWS), MOST_COLUMNS, of_columns=True)
    down, across = math.ceil(matrix.shape[0] / pooled.shape[0]), math.ceil(matrix.shape[1] / pooled.shape[1])
    cell = (
        f"{down}×{across} elements a cell, the greatest difference of them"
        if down * across > 1
        else "one element a cell"
    )
    return Raster(
        title=title,
        unit=cell,
        values=[[float(value) for value in row] for row in pooled],
        rows=rows,
        columns=columns,
    )


def _matrix(d: Floats) -> tuple[Floats, str, str]:
    """Return the tensor as a matrix with words for its sides: the trailing dimensions go across."""
    if d.ndim < 2:
        return d.reshape(1, -1), "", f"dimension 0 ({d.size})"
    across = d.ndim - 1 if d.ndim < 4 else d.ndim - 2
    wide = math.prod(d.shape[across:])
    return d.reshape(-1, wide), _dims(d.shape[:across], 0), _dims(d.shape[across:], across)


def _dims(sizes: tuple[int, ...], first: int) -> str:
    if len(sizes) == 1:
        return f"dimension {first} ({sizes[0]})"
    return f"dimensions {first} to {first + len(sizes) - 1} ({'×'.join(map(str, sizes))})"


def _pooled(matrix: Floats, most: int, *, of_columns: bool = False) -> Floats:
    """Return a matrix of at most `most` rows (or columns): of each block the entry of greatest size, NaN before all."""
    whole = matrix.T if of_columns else matrix
    size = math.ceil(whole.shape[0] / most)
    if size > 1:
        blocks = [whole[start : start + size] for start in range(0, whole.shape[0], size)]
        whole = np.stack([_greatest(block) for block in blocks])
    return whole.T if of_columns else whole


def _greatest(block: Floats) -> Floats:
    strength = np.where(np.isfinite(block), np.abs(block), np.inf)
    row: Floats = np.take_along_axis(block, strength.argmax(axis=0)[None, :], axis=0)[0]
    return row
