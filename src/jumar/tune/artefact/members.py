"""The members of an artefact as they lie in the file: read and compared with their checksums, by several threads.

A checksum is that of the checksums of pieces of 4 MiB, so that threads can work side by side: reading and checking a
hundred megabytes of weights would take longer than making the model without Jumar.
"""

from __future__ import annotations

import hashlib
import struct
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from jumar.base.host import usable_cores
from jumar.base.outside import archives
from jumar.tune.artefact.manifest import WeightPlace

PIECE_BYTES = 4 << 20
_MOST_THREADS = 4
_LOCAL = struct.Struct("<4s22xHH")
"""What stands before a member: a signature, the lengths of its name and of what else is said of it."""
_SIGNATURE = b"PK\x03\x04"


def checksum(content: bytes | memoryview) -> str:
    """Return what the manifest says of a member: BLAKE2b of the BLAKE2b of its pieces, 32 bytes each, hexadecimal."""
    pieces = (content[start : start + PIECE_BYTES] for start in range(0, len(content), PIECE_BYTES))
    return _joined([_hashed(piece) for piece in pieces])


def _hashed(piece: bytes | memoryview) -> bytes:
    return hashlib.blake2b(piece, digest_size=32).digest()


def _joined(pieces: Sequence[bytes]) -> str:
    return hashlib.blake2b(b"".join(pieces), digest_size=32).hexdigest()


class Members:
    """A zip file whose members are not compressed, open for reading."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises UnsafeArchiveError, OSError, and what `zipfile` raises for a damaged one."""
        self._path = path
        self._archive = zipfile.ZipFile(path)
        try:
            self._told = archives.of_zip(self._archive)
        except BaseException:
            self._archive.close()
            raise
        self.names = self._archive.namelist()

    def close(self) -> None:
        """Close the file: nothing is read any more."""
        self._archive.close()

    def targets(self, folder: Path, prefix: str) -> dict[str, Path]:
        """Return where each member whose name begins with `prefix` belongs in `folder`, by its whole name.

        Raises UnsafeArchiveError for one that belongs elsewhere.
        """
        chosen = [
            replace(member, name=member.name.removeprefix(prefix))
            for member in self._told
            if member.name.startswith(prefix)
        ]
        found = archives.targets(folder, chosen, limit_bytes=self._path.stat().st_size)
        return {prefix + name: target for name, target in found.items()}

    def read(self, name: str) -> tuple[memoryview, str]:
        """Return the content of a member, in memory of its own that can be written, and its checksum.

        Raises EOFError and ValueError for a file that is cut short or has another form, and OSError.
        """
        start, size = self._place(name)
        content = torch.empty(size, dtype=torch.uint8).numpy().data  # at a multiple of 64 bytes

        def take(first: int) -> bytes:
            piece = content[first : first + PIECE_BYTES]
            self._fill(piece, start + first)
            return _hashed(piece)

        firsts = range(0, size, PIECE_BYTES)
        num_threads = min(_MOST_THREADS, usable_cores(), len(firsts))
        if num_threads < 2:
            return content, _joined([take(first) for first in firsts])
        with ThreadPoolExecutor(num_threads) as pool:
            return content, _joined(list(pool.map(take, firsts)))

    def _place(self, name: str) -> tuple[int, int]:
        """Return where in the file a member begins, and its bytes."""
        told = self._archive.getinfo(name)
        if told.compress_type != zipfile.ZIP_STORED:
            raise ValueError("it is compressed")
        before = memoryview(bytearray(_LOCAL.size))
        self._fill(before, told.header_offset)
        signature, name_bytes, extra_bytes = _LOCAL.unpack(before)
        if signature != _SIGNATURE:
            raise ValueError("it is not where the file says")
        return told.header_offset + _LOCAL.size + name_bytes + extra_bytes, told.file_size

    def _fill(self, buffer: memoryview, offset: int) -> None:
        """Read as many bytes as the buffer has. Each thread has a file of its own, and with it a position."""
        if self._archive.fp is None:
            raise ValueError("it was closed before this was asked for")
        with self._path.open("rb", buffering=0) as file:
            file.seek(offset)
            while len(buffer):
                count = file.readinto(buffer)
                if not count:
                    raise EOFError("it ends early")
                buffer = buffer[count:]


class Weights(Mapping[int, torch.Tensor]):
    """The weights by place, in memory of their own. They are read when the first of them is asked for.

    Most engines left their own form of the weights in the artefact and never ask.
    """

    def __init__(self, places: Sequence[WeightPlace], read: Callable[[], memoryview]) -> None:
        self._places = {one.place: one for one in places}
        self._read = read
        self._tensors: dict[int, torch.Tensor] | None = None
        self._lock = threading.Lock()

    def __getitem__(self, place: int) -> torch.Tensor:
        with self._lock:
            if self._tensors is None:
                self._tensors = self._cut()
        return self._tensors[place]

    def __contains__(self, place: object) -> bool:
        return place in self._places

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _cut(self) -> dict[int, torch.Tensor]:
        memory = torch.from_numpy(np.asarray(self._read()))
        return {
            place: memory[one.offset : one.offset + one.num_bytes]
            .view(getattr(torch, one.dtype))
            .as_strided(tuple(one.shape), tuple(one.stride))
            for place, one in self._places.items()
        }
