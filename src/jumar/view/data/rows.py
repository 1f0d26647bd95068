"""`RowTable`: the rows of a recording in pages. The first page is read from its files, all others come from an index.

The index is made in the background when the recording is first looked at, and again when files were written. Every
file's checksums are compared while it is read; a damaged one is left out and named.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from jumar.recording.schema import STEPS_FOLDER
from jumar.view.data.building import empty, extended
from jumar.view.data.index import Asked, Index, Row, Sort, StepFile

__all__ = ["PAGE_ROWS", "Asked", "Found", "Row", "RowTable", "Sort", "StepFile", "step_files"]

PAGE_ROWS = 50
_STEP_FILE = re.compile(r"step-(\d+)-rank-(\d+)\.parquet")


@dataclass(frozen=True, slots=True)
class Found:
    """A page of rows, and how many fit in all; None where that is not known yet."""

    rows: Sequence[Row]
    count: int | None


@dataclass(slots=True)
class RowTable:
    """The rows of one recording. Safe for several threads."""

    path: Path
    files: Sequence[StepFile] = ()
    damaged: dict[Path, str] = field(default_factory=dict)
    """Files that are left out, and why."""
    done: int = 0
    """Files that the index has read."""
    _index: Index | None = None
    _known: dict[Any, Any] = field(default_factory=dict)
    _ready: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def steps(self) -> list[int]:
        """The steps that any rank has, in order."""
        return sorted({file.step for file in self.files})

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a step, in order."""
        return sorted({file.rank for file in self.files})

    def refresh(self, files: Sequence[StepFile]) -> None:
        """Take the files that there are now; where others are new, the index is made in the background."""
        if list(files) == list(self.files):
            return
        self.files = files
        self._ready.clear()
        threading.Thread(target=self._read, args=(files,), daemon=True).start()

    def _read(self, files: Sequence[StepFile]) -> None:
        def note(done: int, _: int) -> None:
            self.done = done

        try:
            with self._lock:
                index, damaged = extended(self._index or empty(), files, on_read=note)
                if files is not self.files:  # others are there already, and another thread waits to read them
                    return
                self._index, self.damaged = index, damaged
                self._known.clear()
        finally:
            if files is self.files:  # also after a defect, whose traceback is in the terminal: nobody waits for ever
                self._ready.set()
        index.page(Asked(sort="duration_us"), 1)  # what is asked for most often is in order before it is

    def wait(self, seconds: float) -> bool:
        """Wait until all files are read, so long at most; tell whether they are."""
        return not self.files or self._ready.wait(seconds)

    def page(self, asked: Asked) -> Found | None:
        """Return a page; None where it needs an index that is not ready. The first pages of a step never need it."""
        if self._index is None and self.files:
            return self._early(asked)
        index = self._index or empty()  # also while files are read that were written meanwhile
        return Found(index.page(asked, PAGE_ROWS), index.count(asked))

    def _early(self, asked: Asked) -> Found | None:
        """Return a page from the one file that holds it: a step that is chosen, or the first in their order."""
        if asked.step is not None:
            files = [
                file for file in self.files if (file.step, asked.rank) in ((asked.step, None), (asked.step, file.rank))
            ]
        elif not (asked.sort or any(asked.filter) or asked.rank is not None or asked.first):
            files = list(self.files[:1])
        else:
            return None
        index, damaged = extended(empty(), files)
        self.damaged |= damaged
        return Found(index.page(asked, PAGE_ROWS), index.count(asked) if asked.step is not None else None)

    def totals(self, asked: Asked, by: Literal["name", "module_path"], most: int = 200) -> list[tuple[str, int, float]]:
        """Return operators or modules with the most host time: name, calls, microseconds. Waits for the index."""
        return self.index().totals(asked, by, most)

    def index(self) -> Index:
        """Return the index, when all files are read."""
        self.wait(threading.TIMEOUT_MAX)
        return self._index or empty()

    def figures(
        self, kind: str, side: Literal["inputs", "outputs"], names: Sequence[str], rank: int = 0
    ) -> list[tuple[int, str, str, dict[str, Any]]]:
        """Return step, module, name, and figures of the first tensor on a side, of each row of a kind; kept."""
        key = (kind, side, tuple(names), rank)
        index = self.index()
        if key not in self._known:
            self._known[key] = list(_figures(index, kind, side, names, rank, self.damaged))
        found: list[tuple[int, str, str, dict[str, Any]]] = self._known[key]
        return found


def _figures(
    index: Index, kind: str, side: str, names: Sequence[str], rank: int, damaged: dict[Path, str]
) -> list[tuple[int, str, str, dict[str, Any]]]:
    from jumar.view.data.pieces import DamagedFileError, figures

    starts = {file.path: int(index.starts[at]) for at, file in enumerate(index.files)}
    found = []
    for file, rows in index.of_kind(kind, rank):
        try:
            values = figures(file.path, rows, side, names)
        except DamagedFileError as error:
            damaged[file.path] = str(error)
            continue
        for within, value in zip(rows, values, strict=True):
            row = index.row(starts[file.path] + within)
            found.append((file.step, row.module_path, row.name, value))
    return found


def step_files(folder: Path, is_allowed: Callable[[Path], bool] = lambda _: True) -> list[StepFile]:
    """Return the step files of the recording in a folder; `is_allowed` says which links may be followed."""
    steps = folder / STEPS_FOLDER
    if steps.is_symlink() and not is_allowed(steps):
        return []
    found = []
    with os.scandir(steps) as entries:
        for entry in entries:
            match = _STEP_FILE.fullmatch(entry.name)
            if match is None or (entry.is_symlink() and not is_allowed(Path(entry.path))):
                continue
            state = entry.stat()
            stamp = (state.st_mtime_ns, state.st_size)
            found.append(StepFile(int(match[1]), int(match[2]), Path(entry.path), stamp))
    return sorted(found, key=lambda file: (file.step, file.rank))
