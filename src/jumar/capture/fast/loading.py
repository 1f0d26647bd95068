"""When the C++ of the hot path is compiled, and that nobody waits for it.

A library of an earlier run is taken from the cache. Without one a recording that goes on for a while has it compiled
by a thread of its own, and uses it from the step on at which it is there; short ones do not start a compiler. Where
it cannot be compiled, Python notes everything, and nothing is said.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

from jumar.capture.fast.build import cached, load
from jumar.errors import JumarError

SWITCH = "JUMAR_RECORD_NATIVE"
"""`0` in the environment: everything is noted by Python."""
_PATIENCE_S = 5.0
"""Recordings that are shorter start no compiler."""

_failed = (JumarError, OSError, ImportError, ValueError)
_state: dict[str, Any] = {"module": None, "thread": None}
"""Of the process: a library is loaded once."""


class Loader:
    """Gives the module as soon as it is there."""

    def __init__(self) -> None:
        self._is_off = os.environ.get(SWITCH, "") == "0" or not sys.platform.startswith("linux")
        self._began = time.monotonic()
        self._is_first = True

    def module(self) -> Any:
        """Return the module, or None while or where there is none."""
        if self._is_off or _state["module"] is not None:
            return None if self._is_off else _state["module"]
        if self._is_first:
            self._is_first = False
            self._take_cached()
        elif _state["thread"] is None and time.monotonic() - self._began > _PATIENCE_S:
            thread = _state["thread"] = threading.Thread(target=_compile, name="jumar-compiler", daemon=True)
            thread.start()
        return _state["module"]

    def _take_cached(self) -> None:
        try:
            if cached():
                _state["module"] = load()
        except _failed:
            self._is_off = True


def _compile() -> None:
    try:
        _state["module"] = load()
    except _failed:
        return
