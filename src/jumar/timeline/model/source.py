"""`Source`: one rank's files of one profiler in a folder, and the contract of a format module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jumar.timeline.model.events import Timeline

OnProgress = Callable[[int, int], None]
"""(bytes done, bytes in all)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The files that one timeline is read from."""

    format: str
    path: Path
    """The file, or the folder of one rank."""
    files: Sequence[Path]
    rank: int | None = None
    """None where only the content tells."""
    size_bytes: int = 0


class FormatModule(Protocol):
    """What a module of `jumar.timeline.formats` has."""

    NAME: str
    """`kineto`."""

    def find(self, place: Path) -> list[Source]:
        """Return the sources of this format at a file or in a folder, reading a few kilobytes of each at most."""

    def read(self, source: Source, on_progress: OnProgress | None = None) -> Timeline:
        """Return the events of one source. Damage is a sentence in `lost`; raises InputError where nothing is left."""
