"""The operations that the library knows, and their fields: C++ and Python have them from here."""

from __future__ import annotations

CODES = (
    "LOAD", "STORE", "HALO", "PHASES", "PHASE_PLANES", "PRODUCT", "DEPTHWISE", "WINOGRAD", "FUSED", "POOL", "MEAN",
    "GATHER", "BINARY", "TILES_IN", "TILES_OUT", "DEPTHWISE_PLANES",
    "GELU",
)  # fmt: skip
FIELDS = (
    "code", "barrier", "tensor", "tensor_out", "images", "channels", "groups", "blocks", "in_blocks",
    "in", "in_image", "in_block", "in_row", "in_h", "in_w",
    "out", "out_image", "out_block", "out_row", "out_h", "out_w", "out_at",
    "other", "other_image", "other_block", "other_row", "other_step", "other_at",
    "weight", "bias", "clamp", "zeros", "post", "kind", "offsets", "depth", "rows", "row", "chunk", "part", "nr",
    "planes", "kh", "kw", "sy", "sx", "dy", "dx", "top", "left", "bottom", "right", "phases", "plane",
    "scratch", "scratch_size", "band", "min_tiles", "maximum", "divisor", "count_padding",
)  # fmt: skip
"""Of `struct Op`: 64-bit whole numbers. Addresses are in floats from the start of the arena, of the weights
(`weight`, `bias`, `clamp`, `zeros`) or of the tables (`offsets`, `out_at`, `other_at`)."""
PLACE = {name: number for number, name in enumerate(FIELDS)}


def header() -> str:
    """Return the text of `fields.hpp`."""
    codes, fields = ", ".join(f"CODE_{code}" for code in CODES), ", ".join(FIELDS)
    return f"#pragma once\n#include <cstdint>\nenum Code {{ {codes} }};\nstruct Op {{ int64_t {fields}; }};\n"
