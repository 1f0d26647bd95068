"""Executes recorded operators again, and tells an operator's own error from the error that it inherited.

The names below are loaded when first used; importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.comparison.replay.engine import replay
    from jumar.comparison.replay.results import On, OutputError, OwnError, Replayed, Verdict

__all__ = ["On", "OutputError", "OwnError", "Replayed", "Verdict", "replay"]

_RESULTS = "jumar.comparison.replay.results"
_HOME = {
    "replay": "jumar.comparison.replay.engine",
    **dict.fromkeys(("On", "OutputError", "OwnError", "Replayed", "Verdict"), _RESULTS),
}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
