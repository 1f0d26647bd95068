"""Recognises rounding: low bits that are zero, a bias toward zero, products in a shorter format, growth."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from jumar.comparison.diagnosis.results import Hypothesis
from jumar.comparison.diagnosis.signatures.pair import Pair, axis_word
from jumar.operators import has, has_any

FORMATS = {16: "bfloat16", 13: "TF32 or float16", 12: "HF32"}
"""Low bits of a float32 that are zero after rounding to a format: 23 less its stored bits of the mantissa
(7, 10, and 11 for the HF32 of the Ascend matrix unit)."""
BITS = {"bfloat16": 7, "TF32": 10, "HF32": 11}
NEARLY_ALL = 0.99
ENOUGH = 64
BIASED = 0.9
"""Share by which differences of one direction outnumber the others; noise stays near 0."""
ROUGHLY = 1.45
"""Factor within which the size of a product's error fits a format; neighbouring formats are a factor of 2 apart."""
GROWTH = 3.0


def precisions(pair: Pair) -> Iterator[Hypothesis]:
    """Yield what bits and directions of rounding say. Sees differences within the tolerance, too."""
    if pair.num < ENOUGH or not pair.squares:
        return
    yield from _low_bits(pair)
    yield from _truncation(pair)


def _low_bits(pair: Pair) -> Iterator[Hypothesis]:
    if pair.raw_a.dtype != np.float32 or pair.raw_b.dtype != np.float32 or pair.context.dtype != "float32":
        return
    for num_bits, name in FORMATS.items():
        target, reference = _share_of_zero_bits(pair.raw_b, num_bits), _share_of_zero_bits(pair.raw_a, num_bits)
        if target >= NEARLY_ALL and reference <= 0.5:
            yield Hypothesis(
                kind="precision",
                statement=f"The last {num_bits} bits of the mantissa are zero in the target and not in the reference: "
                f"the values went through {name}.",
                confirm="Look for a cast, autocast or a lower precision of the matrix unit (HF32, TF32) on that side.",
                score=0.99,
                evidence={"zero_bits": num_bits, "share_target": target, "share_reference": reference},
            )
            return


def _share_of_zero_bits(array: np.ndarray, num_bits: int) -> float:
    bits = np.ascontiguousarray(array).view(np.uint32).reshape(-1)
    bits = bits[(bits & 0x7FFFFFFF) != 0]
    return float(np.mean((bits & ((1 << num_bits) - 1)) == 0)) if bits.size else 1.0


def _truncation(pair: Pair) -> Iterator[Hypothesis]:
    """Yield a hypothesis when every difference is a unit in the last place and goes one way."""
    if pair.raw_a.dtype != np.float32 or pair.raw_b.dtype != np.float32:
        return
    changed = pair.d != 0
    num = int(np.count_nonzero(changed))
    if num < ENOUGH or num < 0.05 * pair.num:
        return
    units = np.abs(pair.d[changed]) / np.abs(np.spacing(pair.raw_a[changed]).astype(np.float64))
    if float(np.quantile(units, 0.99)) > 1.5:
        return
    toward_zero = float(np.mean(np.sign(pair.d[changed]) * np.sign(pair.a[changed])))
    upward = float(np.mean(np.sign(pair.d[changed])))
    bias, word = (toward_zero, "toward zero" if toward_zero < 0 else "away from zero")
    if abs(upward) > abs(bias):
        bias, word = upward, "upward" if upward > 0 else "downward"
    if abs(bias) < BIASED:
        return
    yield Hypothesis(
        kind="rounding",
        statement=f"{num:,} of {pair.num:,} elements differ by one unit in the last place, all {word}: "
        "another rounding mode (truncation instead of round to nearest even).",
        confirm="Harmless alone; sums of many such values drift: compare a reduction of them.",
        score=0.95 * abs(bias),
        evidence={"elements": num, "bias": bias, "units_99_percent": float(np.quantile(units, 0.99))},
    )


def products(pair: Pair) -> Iterator[Hypothesis]:
    """Yield the format whose rounding of the inputs gives a product an error of this size.

    Inputs rounded to m stored bits have relative errors of rms 2^-(m+1)/√3 · 0.72 (uniform mantissas); two of them
    add, and independent terms keep the ratio to the scale of the product.
    """
    if pair.num < ENOUGH or not is_product(pair.context.operator) or pair.context.dtype != "float32":
        return
    d = pair.d.reshape(-1)
    spread = 2.0 * float(d.var())
    rough = float(np.mean(np.diff(d) ** 2)) / spread if spread else 0.0
    if rough < 0.5:
        return
    yield from product_of_rounded(pair.relative, 0.7)


def is_product(operator: str) -> bool:
    """Return whether an operator multiplies matrices or convolves."""
    return has_any(operator, "product", "convolution", "attention") and not has(operator, "backward")


def product_of_rounded(relative: float, score: float) -> Iterator[Hypothesis]:
    """Yield the format whose rounding of a product's inputs gives this relative L2 difference."""
    for format_name, bits in BITS.items():
        expected = 2.0 ** -(bits + 1) / math.sqrt(3) * 0.72 * math.sqrt(2)
        if 1 / ROUGHLY <= relative / expected <= ROUGHLY:
            yield Hypothesis(
                kind="precision",
                statement=f"The difference has the size ({relative:.2g}) of a product whose inputs were rounded to "
                f"{format_name} ({expected:.2g} is expected), and no plainer shape.",
                confirm="Turn the lower precision off on that side (torch.backends.cuda.matmul.allow_tf32, "
                "torch.npu.matmul.allow_hf32, autocast) and compare again.",
                score=score,
                evidence={"relative_l2": relative, "expected": expected, "format": format_name},
            )


def growth(pair: Pair) -> Iterator[Hypothesis]:
    """Yield a hypothesis for a dimension along which the difference grows steadily."""
    for axis, size in enumerate(pair.a.shape):
        others = tuple(i for i in range(pair.a.ndim) if i != axis)
        if size < 8:
            continue
        errors = np.sqrt((pair.d**2).mean(axis=others))
        sizes = np.sqrt((pair.a**2).mean(axis=others))
        relative = np.divide(errors, sizes, out=np.zeros_like(errors), where=sizes > 0)
        rank = _rank_correlation(relative)
        quarter = max(size // 4, 1)
        first, last = float(relative[:quarter].mean()), float(relative[-quarter:].mean())
        if rank < 0.85 or last < GROWTH * first or first == 0:
            continue
        yield Hypothesis(
            kind="accumulation",
            statement=f"The difference grows along {axis_word(axis, pair.a.shape)}, from {first:.2g} to {last:.2g}: "
            "an error accumulates (a running sum, a recurrence, an accumulation dtype).",
            confirm="Run the operator with float32 or float64 accumulation and compare the last slice.",
            score=0.8 * rank,
            evidence={"axis": axis, "first_quarter": first, "last_quarter": last, "rank_correlation": rank},
        )


def _rank_correlation(values: np.ndarray) -> float:
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    if float(values.max()) == float(values.min()):
        return 0.0
    return float(np.corrcoef(ranks, np.arange(values.size))[0, 1])
