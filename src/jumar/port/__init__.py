"""The main job: chains convert, assess, run, compare and advise into one folder.

The names below are loaded when first used: the pages of single commands live here too, and need less.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jumar.port.options import PortOptions
    from jumar.port.pipeline import port
    from jumar.port.result import PortResult

__all__ = ["PortOptions", "PortResult", "port"]

_HOME = {"PortOptions": "jumar.port.options", "PortResult": "jumar.port.result", "port": "jumar.port.pipeline"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'jumar.port' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOME[name]), name)
