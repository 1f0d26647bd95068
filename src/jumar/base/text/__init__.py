"""Counted words, numbers and sizes in bytes, as people read and write them."""

from __future__ import annotations

from jumar.base.text.digits import cell_text, counted, listing, number_text
from jumar.base.text.sizes import GIB, KIB, MIB, SIZE_HELP, TIB, parse_size, size_text

__all__ = [
    "GIB",
    "KIB",
    "MIB",
    "SIZE_HELP",
    "TIB",
    "cell_text",
    "counted",
    "listing",
    "number_text",
    "parse_size",
    "size_text",
]
