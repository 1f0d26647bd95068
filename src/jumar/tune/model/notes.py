"""What the back end says to the user: one sentence on the standard error, each once a process.

Through `logging` (the logger `jumar.tune`) and not `warnings`: a program that turns warnings into errors must still
run. Graphs that the bank does not know are the ordinary case and are told at the level `INFO` only.
"""

from __future__ import annotations

import logging
import threading

_LOG = logging.getLogger("jumar.tune")
_said: set[str] = set()
_lock = threading.Lock()


def say(sentence: str) -> None:
    """Warn once."""
    with _lock:
        if sentence in _said:
            return
        _said.add(sentence)
    _LOG.warning("jumar: %s", sentence)


def tell(sentence: str) -> None:
    """Log what is no reason to worry."""
    _LOG.info("jumar: %s", sentence)


def forget() -> None:
    """Let everything be said again."""
    with _lock:
        _said.clear()
