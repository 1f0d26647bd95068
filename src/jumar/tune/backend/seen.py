"""Training steps that were captured before, kept beside the bank: capturing one takes seconds, reading it none.

    <folder>/<digest of the module>.json     the step, or why it is not tuned

What cannot be read or written is as if it were not there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from jumar.findings import Json
from jumar.recording.files import write_text_atomically
from jumar.tune.backend.capture import NotTunable
from jumar.tune.backend.notes import tell
from jumar.tune.graph.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One folder of steps."""

    folder: Path

    def step(self, source: str) -> Graph | None:
        """Return the step of a module; None when it was not seen. Raises NotTunable when it is not tuned."""
        try:
            found = json.loads((self.folder / f"{source}.json").read_text("utf-8"))
            reason = str(found.get("reason", ""))
            graph = None if reason else Graph.from_json(found["step"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        if reason:
            raise NotTunable(reason)
        return graph

    def keep(self, source: str, step: Graph) -> None:
        """Remember a step."""
        self._write(source, {"step": step.to_json()})

    def refuse(self, source: str, reason: str) -> None:
        """Remember why a module's step is not tuned."""
        self._write(source, {"reason": reason})

    def _write(self, source: str, found: dict[str, Json]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text_atomically(self.folder / f"{source}.json", json.dumps(found))
        except OSError as error:
            tell(f"{self.folder} cannot be written: {error.strerror}")
