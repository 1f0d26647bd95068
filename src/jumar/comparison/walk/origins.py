"""Finds how data or parameters that differ are related: in another order, transposed, of another step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from jumar.comparison.align.align import AlignedStep, Pair
from jumar.comparison.align.matching import Dataflow
from jumar.comparison.measure.leaves import Leaf
from jumar.comparison.measure.loading import Load
from jumar.comparison.model.calls import Call
from jumar.recording.schema import CallRow, TensorRow
from jumar.recording.sketch import relative_l2

if TYPE_CHECKING:
    import numpy as np

SAME = 1e-6
"""Relative difference up to which a figure of two tensors with equal elements is the same."""

MOST_STEPS = 32
"""Other steps in which a batch is looked for."""

RowsOf = Callable[[int], Sequence[CallRow]]


def relation(leaf: Leaf, step: AlignedStep, load: Load) -> str:
    """Return in words how the two tensors of a leaf that differs are related; empty when nothing is seen."""
    found = next(_pairs_of(leaf, step), None)
    if found is None:
        return ""
    pair, mine, theirs = found
    loaders = load(pair.reference, pair.target) if load and pair.reference and pair.target else None
    arrays = (loaders[0](mine), loaders[1](theirs)) if loaders else (None, None)
    if arrays[0] is not None and arrays[1] is not None:
        import numpy as np

        return _of_arrays(np.asarray(arrays[0]), np.asarray(arrays[1]))
    return "statistics are equal: the same elements in another order" if same_figures(mine, theirs) else ""


def _pairs_of(leaf: Leaf, step: AlignedStep) -> Iterator[tuple[Pair, TensorRow, TensorRow]]:
    for pair in step.pairs:
        if pair.reference is leaf.call and pair.target is not None:
            mine, theirs = pair.reference.inputs.get(leaf.diff.name), pair.target.inputs.get(leaf.diff.name)
            if mine is not None and theirs is not None:
                yield pair, mine, theirs


def _of_arrays(mine: np.ndarray, theirs: np.ndarray) -> str:
    import numpy as np

    if mine.shape != theirs.shape or mine.ndim == 0:
        return ""
    if mine.ndim == 2 and mine.shape[0] == mine.shape[1] and np.array_equal(mine.T, theirs):
        return "one is the other transposed"
    rows = [sorted(row.tobytes() for row in np.ascontiguousarray(array)) for array in (mine, theirs)]
    if rows[0] == rows[1]:
        moved = sum(not np.array_equal(one, other) for one, other in zip(mine, theirs, strict=True))
        return f"the same rows in another order ({moved} of {len(mine)} moved)"
    if np.array_equal(np.sort(mine, axis=None), np.sort(theirs, axis=None)):
        return "the same elements in another order"
    return ""


def same_figures(mine: TensorRow, theirs: TensorRow) -> bool:
    """Return whether all four statistics of two tensors agree, so that their elements are likely the same."""
    first, second = (
        (tensor.minimum, tensor.maximum, tensor.mean, tensor.l2) if tensor.num_nan is not None else None
        for tensor in (mine, theirs)
    )
    if first is None or second is None or None in first or None in second or first[0] == first[1]:
        return False
    greatest = max(abs(first[0] or 0.0), abs(first[1] or 0.0))
    ends = all(abs((first[k] or 0.0) - (second[k] or 0.0)) <= SAME * greatest for k in range(3))
    return ends and abs((first[3] or 0.0) - (second[3] or 0.0)) <= SAME * (first[3] or 1.0)


def batch_elsewhere(leaf: Leaf, at: int, steps: Iterable[int], rows: RowsOf) -> str:
    """Return at which of the target's other steps the reference's batch was read; empty when it was at none."""
    mine = leaf.call.inputs.get(leaf.diff.name)
    if mine is None:
        return ""
    row = leaf.call.row
    for step in [step for step in steps if step != at][:MOST_STEPS]:
        for other in rows(step):
            if (other.kind, other.phase, other.name) == (row.kind, row.phase, row.name):
                theirs = next((tensor for tensor in other.inputs if tensor.name == mine.name), None)
                if theirs is not None and theirs.shape == mine.shape and _equal(mine, theirs):
                    return f"the reference's batch of step {at} is the target's of step {step}"
    return ""


def _equal(mine: TensorRow, theirs: TensorRow) -> bool:
    if mine.hash and theirs.hash and mine.dtype == theirs.dtype:
        return mine.hash == theirs.hash
    if mine.sketch and theirs.sketch and mine.l2:
        return relative_l2(mine.sketch, theirs.sketch, mine.l2) <= SAME
    return same_figures(mine, theirs)


def transposed_parameters(step: AlignedStep) -> list[str]:
    """Return the parameters that the target reads with the reference's extents swapped and equal statistics."""
    swapped = [
        (pair.reference, pair.target, names)
        for pair in step.pairs
        if pair.reference is not None
        and pair.target is not None
        and not pair.region
        and pair.reference.row.phase == "forward"
        and (names := _swapped(pair.reference, pair.target))
    ]
    if not swapped:
        return []  # following the values of a step takes as long as aligning it
    flows = Dataflow(step.reference), Dataflow(step.target)
    places = tuple({id(call): k for k, call in enumerate(calls)} for calls in (step.reference, step.target))
    found: dict[str, None] = {}
    for reference, target, names in swapped:
        at = places[0][id(reference)], places[1][id(target)]
        leaves = [{name for name, value in flow.reads[k] if value < 0} for flow, k in zip(flows, at, strict=True)]
        for name in names:
            if name in leaves[0] and name in leaves[1]:
                shapes = reference.inputs[name].shape, target.inputs[name].shape
                found[f"{reference.path} ({list(shapes[0])} against {list(shapes[1])})"] = None
    return list(found)


def _swapped(reference: Call, target: Call) -> list[str]:
    """Return the names of the inputs with swapped extents and equal statistics."""
    return sorted(
        name
        for name, mine in reference.inputs.items()
        if (theirs := target.inputs.get(name)) is not None
        and mine.shape != theirs.shape
        and mine.shape == theirs.shape[::-1]
        and same_figures(mine, theirs)
    )
