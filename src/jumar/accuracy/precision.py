"""Products of float32 that a device computes with fewer bits: TensorFloat-32, HF32, bfloat16 passes.

The recording's settings say which products may be. They are a choice of the user (or the vendor's default),
named under JM304 when the runs differ in it; here they widen the rounding of those operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jumar.accuracy.canonical import names
from jumar.recording import RunInfo, TensorRow

REDUCED = 2.0**-10
"""Epsilon of TensorFloat-32; HF32 has one bit more on some chips. Both factors of a product are rounded to it."""

MATMUL = names("mm bmm addmm baddbmm linear matmul dot mv addmv scaled_dot_product_attention")
CONVOLUTION = names("convolution convolution_backward")


def reduced_products(*runs: RunInfo) -> dict[str, frozenset[str]]:
    """Return, by device type, the operators of which a run may compute float32 products with fewer bits."""
    found: dict[str, frozenset[str]] = {}
    for run in runs:
        devices = run.settings.get("reduced_float32_products")
        for device, switches in devices.items() if isinstance(devices, Mapping) else ():
            found[device] = found.get(device, frozenset()) | _operators(switches)
    return found


def _operators(switches: Mapping[str, Any]) -> frozenset[str]:
    return (MATMUL if switches.get("matmul") else frozenset()) | (
        CONVOLUTION if switches.get("convolution") else frozenset()
    )


def product_epsilon(
    operator: str, outputs: tuple[TensorRow, TensorRow], reduced: Mapping[str, frozenset[str]]
) -> float:
    """Return what fewer bits in the factors add to an operator's rounding; 0 where none are taken away."""
    for output in outputs:
        operators = reduced.get(output.device.split(":", 1)[0], ())
        if operator in operators and output.dtype == "float32":
            return 2.0 * REDUCED
    return 0.0
