"""Ways to cut a batch: AOE's even splits (4+4) and uneven ones (`nonhomo_split`: a batch of 7 as 4+3)."""

from __future__ import annotations

from jumar.tune.graph import Graph

Sizes = tuple[int, ...]


def batch_of(graph: Graph) -> int:
    """Return the first dimension of the first variable input that has one; 0 when none has."""
    shapes = (graph.inputs[place].shape for place in graph.variables)
    return next((shape[0] for shape in shapes if shape), 0)


def splits(batch: int, *, is_uneven: bool) -> list[Sizes]:
    """Return the splits of a batch, fewest pieces first: halves, thirds, … down to single rows.

    Even ones are those whose pieces are equal. With `is_uneven`, what is left over makes the last pieces one row
    smaller, so that a batch of 7 has 4+3, 3+2+2, 2+2+2+1, then single rows; numbers of pieces double from step to
    step, so that there are few.
    """
    found: list[Sizes] = []
    for pieces in _counts(batch):
        size, rest = divmod(batch, pieces)
        if not rest or is_uneven:
            found.append((size + 1,) * rest + (size,) * (pieces - rest))
    return found


def _counts(batch: int) -> list[int]:
    """Return 2, 3, 4, then the doubles, and one piece a row."""
    counts = {2, 3, *(2**power for power in range(2, batch.bit_length())), batch}
    return sorted(count for count in counts if 2 <= count <= batch)
