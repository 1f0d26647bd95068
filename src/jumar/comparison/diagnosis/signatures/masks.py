"""Recognises masks: NaN rows, triangles, rows without content."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from jumar.comparison.diagnosis.results import Hypothesis
from jumar.comparison.diagnosis.signatures.pair import Pair

COVERED = 0.5
"""Share of a mask's elements that must differ."""
CONFIRM = "Compare the attention mask (its dtype, its sign, -inf against a large negative number) on both sides."


def masks(pair: Pair) -> Iterator[Hypothesis]:
    """Yield what NaN, Inf and differing elements say of masks."""
    yield from _nonfinite(pair)
    if pair.num < 16 or pair.a.ndim < 2 or not pair.squares:
        return
    bad = pair.differs()
    if bad.any():
        yield from _triangle(pair, bad)
        yield from _masked_rows(pair, bad)


def _nonfinite(pair: Pair) -> Iterator[Hypothesis]:
    if pair.finite is None or pair.raw_a.ndim < 1:
        return
    bad_a, bad_b = ~np.isfinite(pair.raw_a), ~np.isfinite(pair.raw_b)
    new = bad_b & ~bad_a
    if not new.any():
        return
    rows = new.reshape(-1, new.shape[-1])
    touched = rows.any(axis=1)
    complete = bool(rows[touched].all()) and rows.shape[1] > 1
    if complete and not touched.all():
        yield Hypothesis(
            kind="mask",
            statement=f"NaN or Inf fills {int(touched.sum()):,} of {touched.size:,} whole rows of the last dimension "
            "and nothing else: rows in which everything is masked (softmax of only -inf), or a division by zero a row.",
            confirm=CONFIRM,
            score=0.9,
            evidence={"rows": int(touched.sum()), "of": int(touched.size), "first": int(np.argmax(touched))},
        )
        return
    yield from _overflowed(pair, new, bad_a)


def _overflowed(pair: Pair, new: npt.NDArray[np.bool_], bad_a: npt.NDArray[np.bool_]) -> Iterator[Hypothesis]:
    size = np.abs(np.where(bad_a, 0.0, pair.raw_a).astype(np.float64))
    least, greatest = float(size[new].min()), float(size[~new & ~bad_a].max(initial=0.0))
    if least <= greatest or least < 1e3:
        return
    limit = next(
        (f"{name}'s greatest number, {at:g}" for name, at in LIMITS.items() if greatest <= at * 1.01 <= least * 1.02),
        "",
    )
    yield Hypothesis(
        kind="saturation",
        statement=f"The target is NaN or Inf exactly where the reference is greater than {least:.4g}"
        f"{f', beyond {limit}' if limit else ''}: an overflow.",
        confirm="Run the operator in float32 or bfloat16, or scale its input down.",
        score=0.95,
        evidence={"elements": int(new.sum()), "least_overflowed": least, "greatest_finite": greatest},
    )


LIMITS = {"float16": 65504.0, "float8_e5m2": 57344.0, "float8_e4m3": 448.0}


def _triangle(pair: Pair, bad: npt.NDArray[np.bool_]) -> Iterator[Hypothesis]:
    rows, columns = pair.a.shape[-2:]
    if rows != columns or rows < 4:
        return
    for name, mask in (
        ("above", np.triu(np.ones((rows, rows), bool), 1)),
        ("below", np.tril(np.ones((rows, rows), bool), -1)),
    ):
        inside = int(np.count_nonzero(bad & mask))
        if inside and inside == int(np.count_nonzero(bad)) and inside >= COVERED * mask.sum() * (bad.size // mask.size):
            yield Hypothesis(
                kind="mask",
                statement=f"The two sides differ only {name} the diagonal of the last two dimensions: "
                "a causal mask is missing, transposed or of another dtype.",
                confirm=CONFIRM,
                score=0.95,
                evidence={"differing_elements": inside, "elements_of_the_triangle": int(mask.sum())},
            )


def _masked_rows(pair: Pair, bad: npt.NDArray[np.bool_]) -> Iterator[Hypothesis]:
    """Yield a hypothesis when only rows without content (one value throughout) differ."""
    a = pair.a.reshape(-1, pair.a.shape[-1])
    if a.shape[1] < 4:
        return
    empty = a.max(axis=1) == a.min(axis=1)
    touched = bad.reshape(a.shape).any(axis=1)
    if empty.any() and not empty.all() and not (touched & ~empty).any():
        yield Hypothesis(
            kind="mask",
            statement=f"Only rows that hold one value throughout in the reference (masked or padded: "
            f"{int(empty.sum()):,} of {empty.size:,}) differ: what is masked is filled in another way.",
            confirm=f"{CONFIRM} What is masked should have no influence: see whether the loss uses it.",
            score=0.93,
            evidence={"masked_rows": int(empty.sum()), "differing_rows": int(touched.sum())},
        )
