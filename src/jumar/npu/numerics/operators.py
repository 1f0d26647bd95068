"""Which operators run on the matrix unit, with which operands, and which operators calculate at all."""

from __future__ import annotations

from collections.abc import Mapping

from jumar.operators import functional_name, has_any

MATMULS: Mapping[str, tuple[str, str]] = {
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "mv": ("self", "vec"),
    "addmm": ("mat1", "mat2"),
    "_addmm_activation": ("mat1", "mat2"),
    "addmv": ("mat", "vec"),
    "addbmm": ("batch1", "batch2"),
    "baddbmm": ("batch1", "batch2"),
}
"""Matrix products: the two operands of the matrix unit, by functional name."""

CONVOLUTIONS = frozenset({"convolution", "_convolution", "conv_tbc"})
"""Operators whose first two arguments are input and weight, and whose third is the bias."""

CONVOLUTION_BACKWARD = "convolution_backward"


def is_cube(name: str) -> bool:
    """Return whether an operator runs on the matrix unit."""
    base = functional_name(name)
    return base in MATMULS or base in CONVOLUTIONS or base == CONVOLUTION_BACKWARD


def computes(name: str) -> bool:
    """Return whether an operator calculates values that can overflow. Unknown operators do."""
    return not has_any(
        name, "moves", "view_copy", "factory", "like", "aliases", "copies", "query", "to_host", "uninitialised"
    )
