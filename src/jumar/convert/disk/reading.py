"""Reads the files of a tree that may be converted, each whole, once, and as it was at one moment."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from jumar.base.findings import Finding, Severity
from jumar.base.text import size_text
from jumar.convert.disk.walk import shown
from jumar.convert.files import is_python, kind_of
from jumar.convert.rules.tree import path_not_converted

MAX_BYTES = 8 << 20
"""Larger files are data, whatever their name says; they are copied."""

_HEAD_BYTES = 8192
_MAX_TRIES = 3
_BINARY = frozenset(
    {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ico", ".mp3", ".mp4", ".wav", ".flac", ".avi"}
    | {".mov", ".pdf", ".zip", ".gz", ".bz2", ".xz", ".zst", ".tar", ".tgz", ".7z", ".pt", ".pth", ".ckpt", ".bin"}
    | {".safetensors", ".onnx", ".npy", ".npz", ".h5", ".hdf5", ".pkl", ".pickle", ".parquet", ".arrow", ".so", ".o"}
    | {".a", ".dll", ".exe", ".pyc", ".whl", ".jar", ".class", ".ttf", ".woff", ".woff2", ".lmdb", ".mdb", ".tfrecord"}
)
"""Endings of files that are not even opened before they are copied."""


@dataclass(slots=True)
class Read:
    """The result of reading: sources by path, paths that are only copied, and findings about failures."""

    sources: dict[str, bytes] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)


def read_sources(root: Path, names: Iterable[str]) -> Read:
    """Read the files under `root` that some part of the conversion knows; the others are listed."""
    found = Read()
    for name in names:
        try:
            data = _read(root / name, name, found)
        except OSError as error:
            message = f"The file cannot be read ({error.strerror}), so it is missing in the output."
            found.notes.append(path_not_converted.note(shown(name), message, severity=Severity.ERROR))
            continue
        if data is None:
            found.others.append(name)
        else:
            found.sources[name] = data
    return found


def _read(path: Path, name: str, found: Read) -> bytes | None:
    """Return the bytes of a file that may be converted, None for one that is only copied."""
    if PurePosixPath(name).suffix.lower() in _BINARY:
        return None
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        if not is_python(name, head) and kind_of(name, head) is None:
            return None
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES:
            message = f"It is {size_text(size)} large, more than a source is, so it was copied unread."
            found.notes.append(path_not_converted.note(shown(name), message, action="Split it, or convert it by hand."))
            return None
    for _ in range(_MAX_TRIES):
        data, still = read_at_rest(path)
        if still:
            return data
    found.notes.append(
        path_not_converted.note(
            shown(name), "The file changed each time it was read; its last state was converted.",
            action="Convert again when nothing writes to it.",
        )
    )  # fmt: skip
    return data


def read_at_rest(path: Path) -> tuple[bytes, bool]:
    """Return a file's bytes, and whether nothing wrote to it meanwhile."""
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        data = file.read()
        after = os.fstat(file.fileno())
    still = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    return data, still and len(data) == after.st_size
