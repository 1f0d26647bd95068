"""Rows looked up in a table: the target's are their neighbours."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jumar.accuracy.signatures.hypothesis import Hypothesis, claimed
from jumar.accuracy.signatures.pair import Array, Pair

OFF_BY = (1, -1)


def lookups(pair: Pair) -> Iterator[Hypothesis]:
    """Yield a hypothesis when the target has the rows beside those that the indices name (an embedding, a gather)."""
    tables = [array for array in pair.context.inputs if _is_table(array, pair)]
    indices = [array for array in pair.context.inputs if _is_index(array, pair)]
    for table in tables:
        for index in indices:
            for by in OFF_BY:
                shifted = index.astype(np.int64) + by
                if shifted.size and int(index.min()) >= 0 and int(index.max()) < table.shape[0]:
                    rows = np.clip(shifted, 0, table.shape[0] - 1)
                    share = pair.explained(table.astype(np.float64)[rows].reshape(pair.a.shape))
                    yield _off_by(by, share)


def _is_table(array: Array, pair: Pair) -> bool:
    return array.ndim == 2 and array.dtype.kind == "f" and array.shape[1] == pair.a.shape[-1]


def _is_index(array: Array, pair: Pair) -> bool:
    return array.dtype.kind in "iu" and array.size * pair.a.shape[-1] == pair.a.size


def _off_by(by: int, share: float) -> Hypothesis:
    return Hypothesis(
        kind="index",
        statement=f"The target's rows are those {'after' if by > 0 else 'before'} the ones that the indices name: "
        "an index is off by one.",
        confirm="Compare how indices are counted on both sides (from 0 or from 1, an offset, padding_idx).",
        score=claimed(share) * 0.999,
        evidence={"off_by": by, "explained": share},
    )
