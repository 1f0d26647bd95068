"""The main job: chains convert, assess, run, compare and advise into one folder.

The names below are loaded when first used: the pages of single commands live here too, and need less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.lazy import loader

if TYPE_CHECKING:
    from jumar.port.options import PortOptions
    from jumar.port.pipeline import port
    from jumar.port.result import PortResult

__all__ = ["PortOptions", "PortResult", "port"]

_HOME = {"PortOptions": "jumar.port.options", "PortResult": "jumar.port.result", "port": "jumar.port.pipeline"}

__getattr__ = loader(__name__, __all__, _HOME)
