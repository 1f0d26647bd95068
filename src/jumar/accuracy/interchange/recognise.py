"""Which format a path is of, by what is there and not by its name alone."""

from __future__ import annotations

from pathlib import Path

from jumar.accuracy.interchange.checkpoints import is_checkpoint, open_checkpoint
from jumar.accuracy.interchange.dump import Dump
from jumar.accuracy.interchange.hdf5 import is_hdf5, open_hdf5
from jumar.accuracy.interchange.msprobe import DUMP_FILES, dump_files, open_msprobe
from jumar.accuracy.interchange.npy import npy_files, open_npy_file, open_npy_folder, refuse_raw
from jumar.accuracy.interchange.npy_names import is_raw_dump
from jumar.accuracy.interchange.troubleshooter import data_folders, open_troubleshooter
from jumar.errors import RecordingError
from jumar.recording.schema import RUN_FILE

KNOWN = (
    "a recording, HDF5 of torch.utils.dumper, msprobe's dump.json, TroubleShooter's folder, .npy files or a checkpoint "
    "(.pt, .pth, .ckpt, .safetensors)"
)


def open_foreign(path: Path) -> Dump | None:
    """Return the dump at `path`; None where a Jumar recording is there, or nothing.

    Raises RecordingError, in one sentence, for a file of no known format and for one that is cut short, damaged or
    holds code. Nothing that is in a file is ever run.
    """
    if path.is_dir():
        return None if (path / RUN_FILE).is_file() else _folder(path)
    return _file(path) if path.is_file() else None


def _folder(path: Path) -> Dump | None:
    if dump_files(path):
        return open_msprobe(path)
    if data_folders(path):
        return open_troubleshooter(path)
    if npy_files(path):
        return open_npy_folder(path)
    refuse_raw(path)
    return None


def _file(path: Path) -> Dump:
    if path.name in DUMP_FILES:
        return open_msprobe(path)
    if is_hdf5(path):
        return open_hdf5(path)
    if path.suffix == ".npy":
        return open_npy_file(path)
    if is_checkpoint(path):
        return open_checkpoint(path)
    if is_raw_dump(path.name):
        refuse_raw(path.parent)
    empty = " It is empty." if not path.stat().st_size else ""
    raise RecordingError(f"{path} is not {KNOWN}, or it is cut short.{empty} Name one of these.")
