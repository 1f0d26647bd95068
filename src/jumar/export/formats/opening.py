"""`open_document`: opens a checkpoint of any format. The first bytes say which one it is, not the name."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jumar.base.errors import InputError
from jumar.export.formats.document import Document, damaged


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file that is recognised by its content."""

    name: str
    home: str
    """Module and function that opens it, `module:function`; imported when it is needed."""
    fits: Callable[[Path, bytes], bool]
    """Returns whether a file of these first bytes is one. It does not raise for any file."""


def _is_zip(_path: Path, head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04")


def _is_safetensors(path: Path, head: bytes) -> bool:
    length = int.from_bytes(head[:8], "little")
    # The name helps only where the length is damaged, so that the sentence names the right format.
    return head[8:9] == b"{" and (length <= path.stat().st_size or path.suffix == ".safetensors")


def _is_index(_path: Path, head: bytes) -> bool:
    return head.lstrip()[:1] == b"{"


def _is_hdf5(_path: Path, head: bytes) -> bool:
    return head.startswith(b"\x89HDF\r\n\x1a\n")


def _is_bundle(path: Path, _head: bytes) -> bool:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 8, 0))
        return file.read(8) == b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"


def _is_mindspore(_path: Path, head: bytes) -> bool:
    """Field 1 of bytes, in it field 1 of bytes: the name."""
    if not head.startswith(b"\x0a"):
        return False
    at = 1
    while at < min(len(head), 11) and head[at] & 0x80:
        at += 1
    return head[at + 1 : at + 2] == b"\x0a"


_HERE = "jumar.export.formats"
FORMATS = (
    Format("zip", f"{_HERE}.opening:open_zip", _is_zip),
    Format("HDF5", f"{_HERE}.keras.reading:open_h5", _is_hdf5),
    Format("safetensors", f"{_HERE}.safetensors:open_safetensors", _is_safetensors),
    Format("index of shards", f"{_HERE}.sharded:open_sharded", _is_index),
    Format("TensorFlow", f"{_HERE}.tensorflow.bundle:open_bundle", _is_bundle),
    Format("MindSpore", f"{_HERE}.mindspore:open_mindspore", _is_mindspore),
    Format("PyTorch", f"{_HERE}.pytorch.reading:open_pytorch", lambda _path, _head: True),
)
"""In the order in which they are asked."""


def open_document(path: Path) -> Document:
    """Return what a checkpoint holds. Raises InputError for what is missing, damaged, or no checkpoint."""
    if path.is_dir():
        return _open_folder(path)
    if not path.exists():
        index = path.with_name(path.name + ".index")
        if not index.is_file():
            raise InputError(f"{path} does not exist; name a checkpoint that torch.save wrote, or another framework.")
        path = index  # TensorFlow names a checkpoint by what its files begin with
    if not path.is_file():
        raise InputError(f"{path} is no file; name a checkpoint.")
    try:
        with path.open("rb") as file:
            head = file.read(32)
        if not head:
            raise InputError(f"{path} is empty; copy it again.")
        return _open(next(one for one in FORMATS if one.fits(path, head)), path)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}); check its permissions.") from error


def _open(one: Format, path: Path) -> Document:
    module, _, name = one.home.partition(":")
    found: Document = getattr(importlib.import_module(module), name)(path)
    return found


def open_zip(path: Path) -> Document:
    """Open a zip file: Keras' `.keras`, else PyTorch's. Raises InputError."""
    from jumar.export.formats.pytorch.archive import Archive
    from jumar.export.formats.pytorch.reading import open_pytorch

    if "model.weights.h5" in Archive(path).names():
        from jumar.export.formats.keras.reading import open_keras

        return open_keras(path)
    return open_pytorch(path)


def _open_folder(path: Path) -> Document:
    """Open a folder: PyTorch's distributed checkpoint, shards beside an index, or TensorFlow's."""
    if (path / ".metadata").is_file():
        from jumar.export.formats.pytorch.distributed import open_distributed

        return open_distributed(path)
    for ending in ("*.index.json", "*.index"):
        found = sorted(path.glob(ending))
        if len(found) == 1:
            return open_document(found[0])
        if found:
            raise InputError(f"{path} is a folder with several checkpoints; name one: {found[0].name}.")
    raise InputError(f"{path} must be a checkpoint file, and it is a folder; name the file in it.")


def read_json(path: Path, what: str) -> object:
    """Return a small JSON file. Raises InputError."""
    if path.stat().st_size > 1 << 28:
        raise InputError(damaged(path, "it is far too large", what))
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(damaged(path, error, what)) from error
