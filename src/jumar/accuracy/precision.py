"""Products of float32 that a device computes with fewer bits: TensorFloat-32, HF32, bfloat16 passes.

The recording's settings say which products may be. They are a choice of the user (or the vendor's default),
named under JM304 when the runs differ in it; here they widen the rounding of those operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jumar.accuracy.canonical import names
from jumar.recording import RunInfo

REDUCED = 2.0**-10
"""Epsilon of TensorFloat-32; HF32 has one bit more on some chips. Both factors of a product are rounded to it."""

MATMUL = names("mm bmm addmm baddbmm linear matmul dot mv addmv scaled_dot_product_attention")
CONVOLUTION = names("convolution convolution_backward")


def reduced_products(*runs: RunInfo) -> frozenset[str]:
    """Return the operators of which any of the runs may compute float32 products with fewer bits."""
    found: set[str] = set()
    for run in runs:
        switches = run.settings.get("reduced_float32_products")
        if isinstance(switches, Mapping):
            found |= _operators(switches)
    return frozenset(found)


def _operators(switches: Mapping[str, Any]) -> frozenset[str]:
    return (MATMUL if switches.get("matmul") else frozenset()) | (
        CONVOLUTION if switches.get("convolution") else frozenset()
    )


def product_epsilon(operator: str, dtype: str, target_dtype: str, reduced: frozenset[str]) -> float:
    """Return what fewer bits in the factors add to an operator's rounding; 0 where none are taken away."""
    return 2.0 * REDUCED if operator in reduced and "float32" in {dtype, target_dtype} else 0.0
