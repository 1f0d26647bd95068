"""Recognises which values differ: large ones, tiny ones, one sign, or all by a smooth function."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from jumar.comparison.diagnosis.results import Hypothesis, claimed
from jumar.comparison.diagnosis.signatures.pair import Pair

LIMITS = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float8_e4m3": 448.0,
    "float8_e5m2": 57344.0,
    "int8": 127.0,
}
"""Greatest finite numbers (IEEE 754, OCP FP8)."""
SMALLEST_NORMAL = {"float32 and bfloat16": 2.0**-126, "float16": 2.0**-14}
SMOOTH = 0.1
"""Von Neumann's ratio below which a sequence is no noise: noise has 1, a smooth function nearly 0."""
ENOUGH = 256
"""Elements below which smoothness means nothing."""


def magnitudes(pair: Pair) -> Iterator[Hypothesis]:
    """Yield hypotheses from the values of the elements that differ."""
    if pair.num < 16 or not pair.squares:
        return
    yield from _clipped(pair)
    yield from _flushed(pair)
    yield from _signs(pair)
    yield from _only_great(pair)
    yield from _formula(pair)


def _clipped(pair: Pair) -> Iterator[Hypothesis]:
    low, high = float(pair.b.min()), float(pair.b.max())
    if float(pair.a.max()) <= high and float(pair.a.min()) >= low:
        return
    share = pair.explained(np.clip(pair.a, low, high))
    cut = high if float(pair.a.max()) > high else low
    num = int(np.count_nonzero((pair.a > high) | (pair.a < low)))
    near = int(np.count_nonzero(np.abs(pair.b - cut) <= max(pair.rounding, 1e-6) * abs(cut)))
    name = next((f", {dtype}'s greatest number" for dtype, at in LIMITS.items() if abs(abs(cut) / at - 1) < 1e-3), "")
    if near < 2 and not name:
        return
    yield Hypothesis(
        kind="saturation",
        statement=f"The target is the reference cut off at {cut:.6g}{name} ({num:,} elements): "
        "it saturates, or is clamped.",
        confirm="Run the operator in float32; look for a clamp, a quantisation or a narrow dtype before it.",
        score=claimed(share),
        evidence={"limit": cut, "elements_beyond": num, "explained": share},
    )


def _flushed(pair: Pair) -> Iterator[Hypothesis]:
    gone = (pair.b == 0) & (pair.a != 0)
    if not gone.any():
        return
    size = np.abs(pair.a)
    limit, kept = float(size[gone].max()), float(size[(pair.b != 0)].min(initial=np.inf))
    if limit >= kept:
        return
    share = pair.explained(np.where(gone, 0.0, pair.a))
    name = next((dtype for dtype, at in SMALLEST_NORMAL.items() if limit < at <= kept * (1 + 1e-9)), "")
    tiny = limit <= 1e-3 * float(size.max())
    yield Hypothesis(
        kind="denormals",
        statement=f"The target is 0 exactly where the reference is below {kept:.3g} ({int(gone.sum()):,} elements)"
        f"{f', the smallest normal number of {name}' if name else ''}: small values are flushed to zero.",
        confirm="Compare with a loss scale, or in a dtype with a wider range of exponents.",
        score=claimed(share) * (1.0 if name else 0.9 if tiny else 0.6),
        evidence={"elements": int(gone.sum()), "greatest_flushed": limit, "smallest_kept": kept, "explained": share},
    )


def _signs(pair: Pair) -> Iterator[Hypothesis]:
    turned = np.signbit(pair.a) != np.signbit(pair.b)
    num = int(np.count_nonzero(turned & (pair.a != 0)))
    if not 0 < num < pair.num:
        return
    share = pair.explained(np.where(turned, -pair.a, pair.a))
    yield Hypothesis(
        kind="sign",
        statement=f"{num:,} of {pair.num:,} elements have the opposite sign and the right size: "
        "a sign is lost (abs, a square root, a branch of an eigenvector, an exchanged subtraction).",
        confirm="Look at the elements' sign in the operator's inputs.",
        score=claimed(share) * 0.98,
        evidence={"elements": num, "explained": share},
    )


def _only_great(pair: Pair) -> Iterator[Hypothesis]:
    bad = pair.differs()
    num = int(np.count_nonzero(bad))
    if not 2 <= num <= pair.num // 4:
        return
    size = np.abs(pair.a)
    least, greatest = float(size[bad].min()), float(size[~bad].max())
    beyond = float(np.count_nonzero(size[~bad] >= least)) / max(pair.num - num, 1)
    if beyond > 0.02 or least < 2 * pair.rms:
        return
    yield Hypothesis(
        kind="saturation",
        statement=f"Only great values differ (from {least:.4g} on, {num:,} elements): "
        "saturation, or a dtype without enough range.",
        confirm="Run the operator in float32 and compare the greatest values.",
        score=0.75,
        evidence={"from": least, "greatest_equal": greatest, "elements": num, "share_of_others_as_great": beyond},
    )


def _formula(pair: Pair) -> Iterator[Hypothesis]:
    """Yield a hypothesis when the difference is a smooth function of the value: another formula, element by element."""
    if pair.num < ENOUGH:
        return
    causes = [pair.a, *(array for array in pair.context.inputs if array.shape == pair.a.shape)]
    figures = [_neumann(pair, np.argsort(cause, axis=None, kind="stable")) for cause in causes]
    of_input = min(range(len(causes)), key=lambda index: figures[index][0])
    ratio, noise = figures[of_input]
    if ratio > SMOOTH or noise < 2 * ratio:
        return
    what = "the call's input" if of_input else "the value itself"
    yield Hypothesis(
        kind="formula",
        statement=f"The difference is a smooth function of {what}: the sides compute different formulas "
        "element by element (a variant of an activation, an approximation, another constant).",
        confirm="Compare the arguments and the variant of the activation (GELU erf or tanh, SiLU or GELU, slope).",
        score=0.85 * (1 - ratio),
        evidence={"function_of": what, "roughness": ratio, "roughness_in_memory_order": noise},
    )


def _neumann(pair: Pair, order: npt.NDArray[np.intp]) -> tuple[float, float]:
    """Return von Neumann's ratio of the difference in the order of the values, and in memory order."""
    d = pair.d.reshape(-1)
    spread = 2.0 * float(d.var())
    if spread == 0:
        return 1.0, 1.0
    sorted_d = d[order]
    return float(np.mean(np.diff(sorted_d) ** 2)) / spread, float(np.mean(np.diff(d) ** 2)) / spread
