"""The line of the user's code that led to a call."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from jumar.capture.notes.calls import Call
from jumar.capture.notes.lines import UserLines
from jumar.capture.notes.operators import OperatorInfo
from jumar.capture.probes.base import Probe


class SourceProbe(Probe):
    """Notes the innermost frame outside of PyTorch, Jumar and Python's own library: `train.py:41`."""

    def __init__(self, folder: Path | None = None) -> None:
        self.lines = UserLines(folder)
        self.find, self.shown = self.lines.find, self.lines.shown

    def on_call(self, call: Call, info: OperatorInfo | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the line, unless the observer already knows it (a backward operator has its forward's)."""
        if not call.source:
            call.source = self.find(sys._getframe(2))
