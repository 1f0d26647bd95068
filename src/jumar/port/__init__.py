"""The main job: chains convert, assess, run, compare and advise into one folder.

The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.port.options import PortOptions
    from jumar.port.pipeline import port
    from jumar.port.proof import RunProof, verify_run
    from jumar.port.result import PortResult

__all__ = ["PortOptions", "PortResult", "RunProof", "port", "verify_run"]

_HOME = {
    "PortOptions": "jumar.port.options",
    "PortResult": "jumar.port.result",
    "RunProof": "jumar.port.proof",
    "port": "jumar.port.pipeline",
    "verify_run": "jumar.port.proof",
}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
