"""Folders of msprobe: `step0/rank0/dump.json` (or `proc<pid>`), with `stack.json`, `construct.json` and `.pt` files.

Keys are `{type}.{api}.{number}.{direction}` for functions and `Module.{path}.{class}.{direction}.{number}` for
modules. At level L1 no module path is known; at mix `construct.json` leads from a function to its module. There are
no counts of NaN and Inf: where a statistic is one, the count is given as 1 (at least).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.base.errors import RecordingError
from jumar.recording.foreign.dump import Dump, DumpFormat, Part
from jumar.recording.foreign.formats.msprobe_records import Record, rows_of
from jumar.recording.foreign.safe import array_of, inside, load_json, load_npy, load_torch
from jumar.recording.schema import CallRow

if TYPE_CHECKING:
    import numpy as np

DUMP_FILES = ("dump.json", "debug.json")
DATA_FOLDER = "dump_tensor_data"
_STEP = re.compile(r"step(\d+)")
_RANK = re.compile(r"rank(\d*)|proc(\d+)")


def dump_files(path: Path) -> list[Path]:
    """Return the `dump.json` files below a path: itself, in it, in its ranks, or in the ranks of its steps."""
    if path.is_file():
        return [path] if path.name in DUMP_FILES else []
    patterns = [f"{prefix}{name}" for prefix in ("", "*/", "*/*/") for name in DUMP_FILES]
    found = {file.parent: file for pattern in reversed(patterns) for file in path.glob(pattern)}
    return sorted(found.values())


def open_msprobe(path: Path) -> Dump:
    """Return the dump. Raises RecordingError where a `dump.json` is damaged or is not msprobe's."""
    parts: dict[tuple[int, int], Part] = {}
    warnings: list[str] = []
    framework = ""
    for file in dump_files(path):
        document = _document(file)
        framework = str(document.get("framework", framework))
        place = _step_and_rank(file, parts)
        if place in parts:
            warnings.append(f"{file} is a second dump of step {place[0]} and rank {place[1]} and is left out")
            continue
        if not document["data"]:
            warnings.append(f"{file} holds no record (task {document.get('task')})")
        parts[place] = _part(file, document)
    kind = f"msprobe ({framework or 'framework not said'})"
    return Dump(path, kind, parts, warnings=warnings, framework="mindspore" if framework == "mindspore" else "torch")


def _document(file: Path) -> dict[str, Any]:
    document = load_json(file)
    if not isinstance(document, dict) or not isinstance(document.get("data"), dict):
        raise RecordingError(
            f"{file} has no table named data, so msprobe did not write it; name a folder of its dumps."
        )
    return document


def _step_and_rank(file: Path, taken: Mapping[tuple[int, int], Part]) -> tuple[int, int]:
    step, rank = 0, 0
    is_process = False
    for part in file.parent.parts[-2:]:
        if match := _STEP.fullmatch(part):
            step = int(match[1])
        elif match := _RANK.fullmatch(part):
            is_process = match[2] is not None
            rank = int(match[1] or 0)
    if is_process:  # processes have no rank: they are counted
        rank = sum(place[0] == step for place in taken)
    return step, rank


def _part(file: Path, document: Mapping[str, Any]) -> Part:
    folder = file.parent / DATA_FOLDER
    has_tensors = any(folder.glob("*.pt")) or any(folder.glob("*.npy"))
    cache: list[Record] = []

    def records() -> list[Record]:
        if not cache:
            construct = _optional(file.parent / "construct.json")
            cache.extend(rows_of(document["data"], construct, _optional(file.parent / "stack.json"), file))
        return cache

    def tensors(row: CallRow) -> dict[str, np.ndarray]:
        return _load(folder, records()[row.seq].files)

    return Part(rows=lambda: [record.row for record in records()], tensors=tensors if has_tensors else None)


def _optional(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    found = load_json(file)
    return found if isinstance(found, dict) else {}


def _load(folder: Path, files: Mapping[str, str]) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for name, file_name in files.items():
        file = inside(folder, file_name)
        if file is None or not file.is_file():
            continue
        if file.suffix == ".npy":
            arrays[name] = load_npy(file)
            continue
        tensor = load_torch(file)
        if hasattr(tensor, "detach"):
            arrays[name] = array_of(tensor)[0]
    return arrays


FORMAT = DumpFormat("msprobe's dump.json", lambda path: bool(dump_files(path)), open_msprobe)
