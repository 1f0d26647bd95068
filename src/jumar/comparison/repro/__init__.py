"""Writes a recorded operator as a folder of its own: script, tensors, pytest, README.

The names below are loaded when first used; importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.comparison.repro.write import Repro, write_repro

__all__ = ["Repro", "write_repro"]

_HOME = dict.fromkeys(__all__, "jumar.comparison.repro.write")

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
