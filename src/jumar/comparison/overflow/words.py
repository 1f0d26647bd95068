"""Words for origins and their places."""

from __future__ import annotations

import math

from jumar.base.findings import Json
from jumar.comparison.model import words
from jumar.comparison.overflow.results import Origin, Saturation


def place(item: Origin | Saturation) -> str:
    """Return `aten::exp in blocks.4.attn (Attention), forward of step 0 on rank 1, model.py:41`."""
    return f"{item.operator} {'in ' if item.module_path else ''}{words.place(item)}"


def counts(origin: Origin) -> str:
    """Return `12 Inf`, `3 NaN and 1 Inf`, with the number of elements."""
    parts = [f"{number:,} {name}" for number, name in ((origin.num_nan, "NaN"), (origin.num_inf, "Inf")) if number]
    return f"{' and '.join(parts)} (of {math.prod(origin.shape):,} elements)"


def fate_words(origin: Origin) -> str:
    """Return the fate of a harmless origin in words."""
    if origin.fate == "loss-scale":
        return "the loss scale alone: it halves and training goes on"
    if origin.fate == "unread":
        return "never read"
    return f"taken up by {origin.absorbed_by}" if origin.absorbed_by else "reaches nothing that counts"


def evidence(origin: Origin) -> dict[str, Json]:
    """Return the figures of an origin for a finding."""
    return {
        "key": origin.key,
        "kind": origin.kind,
        "fate": origin.fate,
        "tensor": origin.tensor,
        "shape": list(origin.shape),
        "dtype": origin.dtype,
        "num_nan": origin.num_nan,
        "num_inf": origin.num_inf,
        "cause": origin.cause,
        "reaches": origin.reaches,
        "absorbed_by": origin.absorbed_by,
        "turned_by": origin.turned_by,
        "atomic": origin.is_atomic,
        "exact": origin.exact,
    }
