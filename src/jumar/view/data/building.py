"""`extended`: makes an `Index` of step files; of those that an earlier one holds it takes the rows from there.

Rows are put into their place as soon as their file is read, so that no more than the index itself is held.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jumar.base.host import usable_cores
from jumar.view.data.index import TEXTS, Index, Stamp, StepFile

if TYPE_CHECKING:
    from jumar.view.data.pieces import Piece

MOST_THREADS = 4
AHEAD = 8
"""Files that are read before the first of them is in its place."""
_FEW = frozenset({"kind", "phase"})
"""Columns of fewer than 256 distinct texts, whatever the program."""


def empty() -> Index:
    """Return an index without rows."""
    return _Rows().index([], [0], {})


def extended(
    old: Index, files: Sequence[StepFile], *, on_read: Callable[[int, int], None] = lambda *_: None
) -> tuple[Index, dict[Path, str]]:
    """Return the index of these files, and why others could not be read. What `old` holds of them is not read again."""
    from jumar.view.data.pieces import let_go

    places = {(file.path, file.stamp): at for at, file in enumerate(old.files)}
    rows, damaged = _Rows(), {}
    whole: list[StepFile] = []
    starts, seqs = [0], {}
    for number, (file, piece) in enumerate(_read(files, places), start=1):
        if isinstance(piece, str):
            damaged[file.path] = piece
            continue
        seq = rows.take(old, places[file.path, file.stamp]) if piece is None else rows.add(piece)
        if seq is not None:
            seqs[len(whole)] = seq
        whole.append(file)
        starts.append(rows.num)
        on_read(number, len(files))
    let_go()
    return rows.index(whole, starts, seqs), damaged


def _read(
    files: Sequence[StepFile], known: Container[tuple[Path, Stamp]]
) -> Iterator[tuple[StepFile, Piece | str | None]]:
    """Yield each file with its piece, why it cannot be read, or None where its rows are known; some are read ahead."""
    from jumar.view.data.pieces import DamagedFileError, read_piece

    def read(file: StepFile) -> Piece | str | None:
        if (file.path, file.stamp) in known:
            return None
        try:
            return read_piece(file.path)
        except DamagedFileError as error:
            return str(error)

    with ThreadPoolExecutor(min(MOST_THREADS, usable_cores())) as pool:
        waiting: list[tuple[StepFile, Future[Piece | str | None]]] = []
        for file in files:
            waiting.append((file, pool.submit(read, file)))
            if len(waiting) > AHEAD:
                first, made = waiting.pop(0)
                yield first, made.result()
        for first, made in waiting:
            yield first, made.result()


class _Rows:
    """Columns that grow. Room that is not used yet takes no memory: the system gives pages when they are written."""

    def __init__(self) -> None:
        self.num = 0
        self._texts: dict[str, list[str]] = {name: [] for name in TEXTS}
        self._numbers: dict[str, dict[str, int]] = {name: {} for name in TEXTS}
        self._codes: dict[str, npt.NDArray[Any]] = {
            name: np.empty(0, np.uint8 if name in _FEW else np.uint16) for name in TEXTS
        }
        self._duration = np.empty(0, np.float32)

    def add(self, piece: Piece) -> npt.NDArray[np.int32] | None:
        """Add the rows of a piece; returns their `seq` where these do not count from 0."""
        for name in TEXTS:
            own = np.array([self._number(name, text) for text in piece.texts[name]] or [0], np.uint32)
            self._put(name, own[piece.codes[name]])
        self._end(piece.duration_us)
        return piece.seq

    def take(self, old: Index, at: int) -> npt.NDArray[np.int32] | None:
        """Add the rows that an earlier index has of a file; returns their `seq` as `add` does."""
        part = slice(int(old.starts[at]), int(old.starts[at + 1]))
        for name in TEXTS:
            own = np.array([self._number(name, text) for text in old.texts[name]] or [0], np.uint32)
            self._put(name, own[old.codes[name][part]])
        self._end(old.duration_us[part])
        return old.seqs.get(at)

    def index(self, files: Sequence[StepFile], starts: Sequence[int], seqs: dict[int, npt.NDArray[np.int32]]) -> Index:
        """Return what was put together."""
        codes = {name: values[: self.num] for name, values in self._codes.items()}
        return Index(files, np.array(starts, np.int64), self._texts, codes, self._duration[: self.num], seqs)

    def _number(self, name: str, text: str) -> int:
        numbers = self._numbers[name]
        if text not in numbers:
            numbers[text] = len(numbers)
            self._texts[name].append(text)
        return numbers[text]

    def _put(self, name: str, codes: npt.NDArray[Any]) -> None:
        values = self._codes[name]
        while len(self._texts[name]) > np.iinfo(values.dtype).max + 1:
            values = values.astype(np.uint16 if values.dtype == np.uint8 else np.uint32)
        self._codes[name] = values = _with_room(values, self.num, len(codes))
        values[self.num : self.num + len(codes)] = codes

    def _end(self, duration: npt.NDArray[np.float32]) -> None:
        self._duration = _with_room(self._duration, self.num, len(duration))
        self._duration[self.num : self.num + len(duration)] = duration
        self.num += len(duration)


def _with_room(values: npt.NDArray[Any], used: int, more: int) -> npt.NDArray[Any]:
    """Return an array with room for so many more values; it doubles, so that copying stays cheap."""
    if used + more <= len(values):
        return values
    wider = np.empty(max(used + more, 2 * len(values), 1 << 16), values.dtype)
    wider[:used] = values[:used]
    return wider
