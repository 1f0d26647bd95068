"""Re-executes recorded operators: each has its own error, the reference's own error and what it inherited.

The names below are loaded when first used; importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.lazy import loader

if TYPE_CHECKING:
    from jumar.accuracy.replay.engine import replay
    from jumar.accuracy.replay.results import On, OutputError, OwnError, Replayed, Verdict

__all__ = ["On", "OutputError", "OwnError", "Replayed", "Verdict", "replay"]

_RESULTS = "jumar.accuracy.replay.results"
_HOME = {
    "replay": "jumar.accuracy.replay.engine",
    **dict.fromkeys(("On", "OutputError", "OwnError", "Replayed", "Verdict"), _RESULTS),
}

__getattr__ = loader(__name__, __all__, _HOME)
