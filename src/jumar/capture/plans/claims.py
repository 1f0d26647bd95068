"""Whether this process brings up its device and observer itself. Imports nothing, because every `import torch` asks."""

from __future__ import annotations

_state = {"is_claimed": False}


def claim() -> None:
    """Say that this process brings up its device and observer itself."""
    _state["is_claimed"] = True


def is_claimed() -> bool:
    """Return whether `claim` was called in this process."""
    return _state["is_claimed"]
