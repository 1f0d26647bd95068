"""Which tensors of a recorded inference are weights, that hold the same values in every call.

A recording does not name parameters, but it tells where memory comes from: a tensor that an operator inside a
module reads, that no operator inside one has made or written, and that no module was called with, came with the
model. (Operators outside of modules may well make it: a script's first step begins with the model.) While a model is
trained its weights change from step to step, so that a recording with a backward or optimizer phase has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from jumar.recording import CallRow, Recording

Weights = frozenset[tuple[int, int]]
"""(step, number of the storage within it)."""


def weights_of(recording: Recording, rank: int) -> Weights:
    """Return the memory of the weights; empty for a recording of training, or without rows of modules."""
    if "module" not in recording.info.levels:
        return frozenset()
    read: dict[int, set[int]] = defaultdict(set)
    made: dict[int, set[int]] = defaultdict(set)
    called: set[int] = set()
    for row in recording.iter_rows(rank):
        if row.phase != "forward" or row.kind in {"loss", "optimizer", "parameter"}:
            return frozenset()
        if row.kind == "module":
            called.add(row.step)
            made[row.step].update(tensor.storage for tensor in row.inputs)
        elif row.module_path:
            given = {tensor.storage for tensor in row.inputs}
            read[row.step] |= given
            made[row.step].update(one.storage for one in row.outputs if one.storage not in given or _writes(row))
    return frozenset((step, storage) for step in called for storage in read[step] - made[step])


def _writes(row: CallRow) -> bool:
    """Tell whether an operator whose result is its argument's memory writes to it; others return a view."""
    return row.name.partition(".")[0].endswith("_")


def constant_names(row: CallRow, weights: Weights) -> Iterator[str]:
    """Yield the names of the tensors of an operator's call that are weights."""
    for tensor in row.inputs:
        if (row.step, tensor.storage) in weights:
            yield tensor.name
