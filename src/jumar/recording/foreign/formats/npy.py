"""Reads folders of `.npy` files: the vendor's dumps after `msaccucmp.py convert`, or others paired by name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import RecordingError
from jumar.operators.names import TENSORFLOW
from jumar.recording.foreign.dump import Dump, DumpFormat, Part
from jumar.recording.foreign.formats.graph_names import NamedOperator, graph_operators
from jumar.recording.foreign.formats.npy_names import NpyName, is_raw_dump, parse
from jumar.recording.foreign.safe import load_npy
from jumar.recording.foreign.values import call_row
from jumar.recording.schema import CallRow

if TYPE_CHECKING:
    import numpy as np

_TIME = re.compile(r"\d{14}")


def npy_files(folder: Path) -> list[Path]:
    """Return the `.npy` files in and below a folder, in order. Symbolic links are not followed."""
    return sorted(path for path in folder.rglob("*.npy") if path.is_file() and not path.is_symlink())


def refuse_raw(path: Path) -> None:
    """Raise RecordingError for the vendor's binary dumps, a file or a folder: only the vendor's script reads them."""
    folder = path if path.is_dir() else path.parent
    files = folder.rglob("*") if path.is_dir() or is_raw_dump(path.name) else ()
    raw = next((file for file in files if file.is_file() and is_raw_dump(file.name)), None)
    if raw is not None:
        raise RecordingError(
            f"{raw} is a binary dump of the vendor's; run `msaccucmp.py convert -d {folder} -out FOLDER -v 2` and name "
            "that folder."
        )


def open_npy_folder(folder: Path) -> Dump:
    """Return the dump in a folder of `.npy` files. Raises RecordingError where there is none that can be read."""
    files = npy_files(folder)
    named = {path: name for path in files if (name := parse(path.stem)) is not None}
    if not named:
        return _plain(folder, files)
    warnings = [f"{len(files) - len(named)} files have other names and are left out"] if len(named) < len(files) else []
    graph = graph_operators(folder)
    unknown = sorted({name.name for name in named.values()} - set(graph)) if graph else []
    if unknown:
        warnings.append(f"{len(unknown)} operators are in no graph file and have no scope (first: {unknown[0]})")
    parts: dict[tuple[int, int], list[Path]] = defaultdict(list)
    for path, place in _places(folder, named).items():
        parts[place].append(path)
    return Dump(
        folder,
        ".npy files of msaccucmp.py",
        {place: _calls({path: named[path] for path in paths}, graph) for place, paths in sorted(parts.items())},
        warnings=warnings,
        device="npu" if any(name.operator for name in named.values()) else "",
        framework="tensorflow" if graph else "torch",
    )


def open_npy_file(path: Path) -> Dump:
    """Return the dump of one array; any two such files are a pair, whatever their names. Raises RecordingError."""
    array = load_npy(path)
    part = Part(
        rows=lambda: [call_row("array", {}, {"output.0": array})], tensors=lambda _row: {"output.0": load_npy(path)}
    )
    return Dump(path, "one .npy file", {(0, 0): part})


def _plain(folder: Path, files: list[Path]) -> Dump:
    """Return a dump in which each file is a call of its own name."""

    def row(path: Path) -> CallRow:
        relative = path.relative_to(folder).with_suffix("").as_posix()
        return call_row(relative, {}, {"output.0": load_npy(path)})

    part = Part(rows=lambda: [row(path) for path in files], tensors=lambda row: {"output.0": load_npy(files[row.seq])})
    return Dump(folder, "folder of .npy files", {(0, 0): part})


def _places(folder: Path, paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Return step and rank of each file, by `TIME/DEVICE/[MODEL/INDEX/]`: INDEX is the step, else TIMEs are counted."""
    found: dict[Path, tuple[str, int, int | None]] = {}
    for path in paths:
        parts = (folder.name, *path.relative_to(folder).parts[:-1])
        at = next((i for i, part in enumerate(parts) if _TIME.fullmatch(part)), None)
        after = parts[at + 1 :] if at is not None else ()
        device = int(after[0]) if after and after[0].isdecimal() else 0
        index = int(after[-1]) if len(after) >= 3 and after[-1].isdecimal() else None
        found[path] = (parts[at] if at is not None else "", device, index)
    times = sorted({(device, time) for time, device, index in found.values() if index is None})
    counted = {place: sum(other[0] == place[0] for other in times[:i]) for i, place in enumerate(times)}
    return {
        path: (index if index is not None else counted[device, time], device)
        for path, (time, device, index) in found.items()
    }


def _calls(named: dict[Path, NpyName], graph: Mapping[str, NamedOperator]) -> Part:
    calls: dict[tuple[int, int, int, str, str], dict[str, Path]] = defaultdict(dict)
    for path, name in named.items():
        calls[name.call][f"{name.side}.{name.index}"] = path
    ordered = sorted(calls)

    def row(call: tuple[int, int, int, str, str]) -> CallRow:
        arrays = _load(calls[call])
        _, _, _, name, operator = call
        inputs = {key: array for key, array in arrays.items() if key.startswith("input.")}
        outputs = {key: array for key, array in arrays.items() if key.startswith("output.")}
        known = graph.get(name)
        if known is not None:
            kind = f"{TENSORFLOW}{known.kind}"
            return call_row(kind, inputs, outputs, module_path=known.scope, phase=known.phase)
        is_numbered = re.fullmatch(rf"{re.escape(operator)}_\d+", name) is not None
        return call_row(operator or name, inputs, outputs, module_path="" if is_numbered or not operator else name)

    return Part(rows=lambda: [row(call) for call in ordered], tensors=lambda row: _load(calls[ordered[row.seq]]))


def _load(files: dict[str, Path]) -> dict[str, np.ndarray]:
    return {name: load_npy(files[name]) for name in sorted(files, key=_natural)}


def _natural(name: str) -> tuple[str, int]:
    side, _, index = name.partition(".")
    return side, int(index)


FORMAT = DumpFormat(
    ".npy files",
    lambda path: bool(npy_files(path)) if path.is_dir() else path.suffix == ".npy",
    lambda path: open_npy_folder(path) if path.is_dir() else open_npy_file(path),
)
