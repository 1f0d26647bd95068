"""Guesses at the cause of a difference, from two arrays or from what is known of them.

Every signature is a pure function of a `Pair` and independent of recordings. Imports NumPy: import this package only
where tensors are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jumar.comparison.diagnosis.results import Hypothesis, Kind, ranked
from jumar.comparison.diagnosis.signatures.bounds import hypotheses_from_rows
from jumar.comparison.diagnosis.signatures.layout import layouts, lookups
from jumar.comparison.diagnosis.signatures.magnitudes import magnitudes
from jumar.comparison.diagnosis.signatures.masks import masks
from jumar.comparison.diagnosis.signatures.other_values import normalised, other_zeros, stale
from jumar.comparison.diagnosis.signatures.pair import Array, Context, Pair, pair_of
from jumar.comparison.diagnosis.signatures.precision import growth, precisions, products
from jumar.comparison.diagnosis.signatures.regions import regions
from jumar.comparison.diagnosis.signatures.scales import offsets, scales

__all__ = ["Context", "Hypothesis", "Kind", "Pair", "hypotheses", "hypotheses_from_rows", "pair_of"]

Signature = Callable[[Pair], Iterator[Hypothesis]]

FINE: tuple[Signature, ...] = (precisions, masks)
"""Asked for a difference of any size: they look at bits and at NaN and Inf."""
COARSE: tuple[Signature, ...] = (
    scales,
    offsets,
    layouts,
    lookups,
    regions,
    magnitudes,
    normalised,
    products,
    growth,
    stale,
    other_zeros,
)
"""Asked when the difference is more than rounding explains."""


SETTLED = 0.9999
"""A hypothesis with this score explains the whole difference, so no further one is looked for."""


def hypotheses(reference: Array, target: Array, context: Context | None = None) -> tuple[Hypothesis, ...]:
    """Return guesses at the cause of the difference of two arrays of one shape, the best first; none for rounding.

    Raises ValueError when the shapes differ.
    """
    pair = pair_of(reference, target, context)
    if not pair.num or (pair.squares == 0 and pair.finite is None):
        return ()
    found: list[Hypothesis] = []
    for signature in FINE if pair.relative <= pair.rounding else (*FINE, *COARSE):
        found.extend(signature(pair))
        settled = next((one for one in found if one.score >= SETTLED), None)
        if settled is not None:
            return (settled,)
    return ranked(found)
