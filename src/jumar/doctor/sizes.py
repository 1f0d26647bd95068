"""Sizes in words."""

from __future__ import annotations


def size_text(size_bytes: float) -> str:
    """Return `64 MiB`, `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.3g} TiB"
