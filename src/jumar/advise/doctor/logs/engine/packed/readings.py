"""`readings`: the texts in one file, unpacked on the way: one of a plain log, one a member of an archive."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from jumar.advise.doctor.logs.engine.folders import STDIN, LogFile, is_log_name
from jumar.advise.doctor.logs.engine.packed.archives import Damaged, kind_of, members
from jumar.advise.doctor.logs.engine.packed.streams import Tolerant, as_utf_8, codec_of, reason, unpacked

_HEAD_BYTES = 512
_BINARY_BYTES = 8192
_MOST_DEPTH = 2
"""Archives inside an archive are read, those inside these are not."""
_MOST_LAYERS = 3
_BINARY = (
    b"\x7fELF", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"%PDF", b"PAR1", b"SQLite format 3", b"\x93NUMPY", b"\x89HDF",
    b"\x80\x02", b"\x80\x04", b"RIFF", b"MZ",
)  # fmt: skip
_CONTROLS = re.compile(rb"[\x01-\x06\x0e-\x1a\x1c-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Reading:
    """One text to read; `problem` of the stream says afterwards where it could not be read to its end."""

    path: Path
    stream: Tolerant


class Unpacking:
    """Finds the texts in one file; `notes` fills with what could not be read."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self.notes: list[str] = []
        self._skipped: dict[Path, int] = {}

    def readings(self) -> Iterator[Reading]:
        """Yield the texts. A text must be read before the next one is asked for. Raises OSError from opening."""
        if self._file.path == STDIN:
            yield from self._in(Path("stdin"), Tolerant(sys.stdin.buffer), 0, is_named=True)
            return
        with self._file.path.open("rb") as file:
            limited = cast("IO[bytes]", file)
            yield from self._in(self._file.path, Tolerant(limited), 0, is_named=self._file.is_named)
        for path, number in self._skipped.items():
            self.notes.append(f"{number} of the files in {path} not read: they are no text.")

    def _in(self, path: Path, stream: Tolerant, depth: int, *, is_named: bool) -> Iterator[Reading]:
        layers = [stream]
        while (codec := codec_of(layers[-1].peek(_HEAD_BYTES))) and len(layers) <= _MOST_LAYERS:
            layers.append(unpacked(layers[-1], codec))
        inner = layers[-1]
        kind = kind_of(inner.peek(_HEAD_BYTES))
        if kind and depth < _MOST_DEPTH:
            yield from self._members(path, inner, kind, depth, is_own=depth == 0 and len(layers) == 1)
        elif kind or codec or (not is_named and is_binary(inner.peek(_BINARY_BYTES))):
            self._skip(path, depth)
        else:
            yield Reading(path, as_utf_8(inner))
        problem = next((layer.problem for layer in layers if layer.problem), "")
        if problem:
            self.notes.append(f"{path} was read up to where it cannot be read ({problem}).")

    def _members(self, path: Path, stream: Tolerant, kind: str, depth: int, *, is_own: bool) -> Iterator[Reading]:
        own = self._file.path if is_own and self._file.path.is_file() else None
        try:
            for name, content in members(stream, kind, own):
                yield from self._in(path / name, content, depth + 1, is_named=is_log_name(name.rsplit("/", 1)[-1]))
        except Damaged as error:
            self.notes.append(f"{path} was read up to where it cannot be read ({error}).")
        except (OSError, ValueError, RuntimeError) as error:
            self.notes.append(f"{path} was read up to where it cannot be read ({reason(error)}).")

    def _skip(self, path: Path, depth: int) -> None:
        if depth == 0:
            self.notes.append(f"{path} was not read: it is no text.")
        else:
            self._skipped[self._file.path] = self._skipped.get(self._file.path, 0) + 1


def is_plain(file: LogFile) -> bool:
    """Tell whether the bytes of a file are those of a log, so that parts of it can be read. Raises OSError."""
    with file.path.open("rb") as opened:
        stream = Tolerant(cast("IO[bytes]", opened))
        head = stream.peek(_HEAD_BYTES)
        packed = codec_of(head) or kind_of(head) or as_utf_8(stream) is not stream
        return not packed and (file.is_named or not is_binary(stream.peek(_BINARY_BYTES)))


def is_binary(head: bytes) -> bool:
    """Tell whether a file with these first bytes is no text. NUL bytes are what a truncated log may begin with."""
    if head.startswith(_BINARY):
        return True
    text = head.replace(b"\0", b"")
    return len(_CONTROLS.findall(text)) > len(text) // 25
