"""Recognises the numbers that scales are made of in the ratio of two tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jumar.comparison.diagnosis.signatures.pair import Context

DROPOUTS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
LOSS_SCALES = tuple(2.0**power for power in range(7, 25))
COUNTS = range(2, 65)
CONSTANTS = {
    "√2": math.sqrt(2),
    "ln 2 (another base of a logarithm)": math.log(2),
    "ln 10 (another base of a logarithm)": math.log(10),
    "π/180 (degrees and radians)": math.pi / 180,
    "255 (pixels as bytes)": 255.0,
    "2·π": 2 * math.pi,
}

TOLERANCE = 1e-4
"""Relative distance at which a ratio still counts as a number of the list, if it is not known better."""

WIDEST = 2e-3
"""And where it is known worse than this, it is none."""


def recognised(ratio: float, shape: tuple[int, ...], context: Context, uncertainty: float = 0.0) -> list[str]:
    """Return what a ratio target/reference may be, the most specific first; empty when it is no number of the list.

    `uncertainty` is the relative standard error of the ratio.
    """
    if ratio == 0 or not math.isfinite(ratio):
        return []
    allowed = min(max(TOLERANCE, 4.0 * uncertainty), WIDEST)
    names = [
        name
        for name, number in _numbers(shape, context)
        if number > 0 and number != 1 and abs(abs(ratio) / number - 1) <= allowed
    ]
    return list(dict.fromkeys(names))[:3]


def _numbers(shape: tuple[int, ...], context: Context) -> Iterator[tuple[str, float]]:
    for name, number in context.numbers.items():
        yield from _both(name, number)
        if 0 < number < 1:
            yield from _both(f"1 - {name}", 1 - number)
    if context.num_ranks > 1:
        yield from _both(f"the number of ranks, {context.num_ranks}", context.num_ranks)
    for size in dict.fromkeys((*context.dims, *shape)):
        if size > 1:
            yield from _both(f"√{size}, of a dimension of size {size}", math.sqrt(size))
            yield from _both(f"a dimension's size, {size} (sum against mean)", size)
    for p in DROPOUTS:
        yield from _both(f"1 - {p} (dropout's scaling with p = {p})", 1 - p)
    for scale in LOSS_SCALES:
        yield from _both(f"2^{math.log2(scale):.0f} (a loss scale)", scale)
    for name, number in CONSTANTS.items():
        yield from _both(name, number)
    for count in COUNTS:
        yield from _both(f"{count} (ranks, accumulation steps, sum against mean)", count)
        if math.isqrt(count) ** 2 != count:
            yield from _both(f"√{count}", math.sqrt(count))


def _both(name: str, number: float) -> Iterator[tuple[str, float]]:
    if number:
        yield name, number
        yield f"1 divided by {name}" if " " in name else f"1/{name}", 1 / number
