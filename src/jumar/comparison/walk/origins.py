"""Finds how data or parameters that differ are related: in another order, transposed, of another step."""

from __future__ import annotations

import math
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
    pair, reference, target = found
    loaders = load(pair.reference, pair.target) if load and pair.reference and pair.target else None
    arrays = (loaders[0](reference), loaders[1](target)) if loaders else (None, None)
    if arrays[0] is not None and arrays[1] is not None:
        import numpy as np

        return _of_arrays(np.asarray(arrays[0]), np.asarray(arrays[1]))
    return "statistics are equal: the same elements in another order" if same_figures(reference, target) else ""


def _pairs_of(leaf: Leaf, step: AlignedStep) -> Iterator[tuple[Pair, TensorRow, TensorRow]]:
    for pair in step.pairs:
        if pair.reference is leaf.call and pair.target is not None:
            reference, target = pair.reference.inputs.get(leaf.diff.name), pair.target.inputs.get(leaf.diff.name)
            if reference is not None and target is not None:
                yield pair, reference, target


def _of_arrays(reference: np.ndarray, target: np.ndarray) -> str:
    import numpy as np

    if reference.shape != target.shape or reference.ndim == 0:
        return ""
    if reference.ndim == 2 and reference.shape[0] == reference.shape[1] and np.array_equal(reference.T, target):
        return "one is the other transposed"
    rows = [sorted(row.tobytes() for row in np.ascontiguousarray(array)) for array in (reference, target)]
    if rows[0] == rows[1]:
        moved = sum(not np.array_equal(one, other) for one, other in zip(reference, target, strict=True))
        return f"the same rows in another order ({moved} of {len(reference)} moved)"
    if np.array_equal(np.sort(reference, axis=None), np.sort(target, axis=None)):
        return "the same elements in another order"
    return ""


def same_figures(reference: TensorRow, target: TensorRow) -> bool:
    """Return whether all four statistics of two tensors agree, so that their elements are likely the same."""
    first, second = (
        (tensor.minimum, tensor.maximum, tensor.mean, tensor.l2) if tensor.num_nan is not None else None
        for tensor in (reference, target)
    )
    if first is None or second is None or None in first or None in second or first[0] == first[1]:
        return False
    greatest = max(abs(first[0] or 0.0), abs(first[1] or 0.0))
    ends = all(abs((first[k] or 0.0) - (second[k] or 0.0)) <= SAME * greatest for k in range(3))
    return ends and abs((first[3] or 0.0) - (second[3] or 0.0)) <= SAME * (first[3] or 1.0)


def batch_elsewhere(leaf: Leaf, at: int, steps: Iterable[int], rows: RowsOf) -> str:
    """Return at which of the target's other steps the reference's batch was read; empty when it was at none."""
    reference = leaf.call.inputs.get(leaf.diff.name)
    if reference is None:
        return ""
    row = leaf.call.row
    for step in [step for step in steps if step != at][:MOST_STEPS]:
        for other in rows(step):
            if (other.kind, other.phase, other.name) == (row.kind, row.phase, row.name):
                target = next((tensor for tensor in other.inputs if tensor.name == reference.name), None)
                if target is not None and target.shape == reference.shape and _equal(reference, target):
                    return f"the reference's batch of step {at} is the target's of step {step}"
    return ""


def _equal(reference: TensorRow, target: TensorRow) -> bool:
    if reference.hash and target.hash and reference.dtype == target.dtype:
        return reference.hash == target.hash
    if reference.sketch and target.sketch and reference.l2:
        return relative_l2(reference.sketch, target.sketch, reference.l2) <= SAME
    return same_figures(reference, target)


def carried_from(leaf: Leaf, step: AlignedStep, before: tuple[Sequence[CallRow], Sequence[CallRow]]) -> str:
    """Return in words which calls of the step before made a leaf, where each side reads what another call made.

    The leaf then is no data: one script hands on another tensor than the other. Empty where that is not seen. `before`
    are the rows of the step before on both sides.
    """
    found = next(_pairs_of(leaf, step), None)
    if found is None or math.prod(found[1].shape) <= 1:
        return ""
    makers = [_maker(tensor, rows) for tensor, rows in zip(found[1:], before, strict=True)]
    one, other = makers
    if one is None or other is None or _known_as(one) == _known_as(other):
        return ""
    first, second = (f"{row.name}{f' ({row.source})' if row.source else ''}" for row in (one, other))
    return f"the reference reads what {first} made in the step before, and the target what {second} made"


def _maker(tensor: TensorRow, rows: Sequence[CallRow]) -> CallRow | None:
    """Return the first call that made these values; None where there is none."""
    made = (row for row in rows if row.kind == "op" and any(_is_the_same(tensor, output) for output in row.outputs))
    return next(made, None)


def _is_the_same(tensor: TensorRow, output: TensorRow) -> bool:
    return output.shape == tensor.shape and output.dtype == tensor.dtype and _equal(tensor, output)


def _known_as(row: CallRow) -> tuple[str, str, str, int]:
    return row.name, row.module_path, row.phase, row.occurrence


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
        for name, of_reference in reference.inputs.items()
        if (of_target := target.inputs.get(name)) is not None
        and of_reference.shape != of_target.shape
        and of_reference.shape == of_target.shape[::-1]
        and same_figures(of_reference, of_target)
    )
