"""Sizes in bytes: `size_text` writes them, `parse_size` reads them.

GB are powers of 1000 (SI), GiB are powers of 1024 (IEC 80000-13). `size_text` always writes GiB.
"""

from __future__ import annotations

import math
import re

from jumar.base.errors import UsageError

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
SIZE_HELP = "GB are 10^9 bytes, GiB are 2^30 bytes."
"""What the help of every option that takes a size says."""

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?")


def parse_size(text: str, option: str = "", least: int = 1) -> int:
    """Return the bytes that `32GB` (10^9 each), `512 MiB` (2^20 each) or `1000` mean; `32G` is `32GB`.

    Raises UsageError, which names `option`, when the text has another form or means less than `least` bytes.
    """
    match = _SIZE.fullmatch(text.strip().lower())
    size = -1
    if match is not None and (match[2] or not match[3]):
        size = int(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2]])
    if size < least:
        given = f"{option} {text}".strip()
        raise UsageError(f'"{given}" must be a size such as 32GB or 512MiB. Try {f"{option} 32GB".strip()}.')
    return size


def size_text(size_bytes: float) -> str:
    """Return a size with three significant digits in powers of 1024: `640 B`, `12.3 MiB`, `1.5 GiB`."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        text = _three_digits(value)
        if abs(float(text)) < 1024:
            return f"{text} {unit}"
        value /= 1024
    return f"{_three_digits(value)} TiB"


def _three_digits(value: float) -> str:
    whole_digits = len(str(math.floor(abs(value))))
    text = f"{value:.{max(0, 3 - whole_digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
