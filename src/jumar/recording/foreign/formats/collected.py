"""Reads what Jumar's collector wrote: `collected.json`, `steps/step-000000.json` and `.npz`, `end.json`.

`jumar record --collector DIR` writes the collector; `jumar.capture.frameworks.tensorflow.collector.notes` says what the
files hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from jumar.base.errors import RecordingError
from jumar.recording.foreign.dump import Dump, DumpFormat, Part
from jumar.recording.foreign.safe import load_json
from jumar.recording.foreign.values import plain_row
from jumar.recording.schema import CallRow, Kind, Phase, RunEnd, TensorRow

if TYPE_CHECKING:
    import numpy as np

VERSION = 1
RUN, END, STEPS = "collected.json", "end.json", "steps"
_STEP = re.compile(r"step-(\d{6})")
_FIGURES = ("minimum", "maximum", "mean", "l2")


def open_collected(path: Path) -> Dump:
    """Return what was collected. Raises RecordingError for a folder of a later version, and for damaged files."""
    folder = path.parent if path.is_file() else path
    run = load_json(folder / RUN)
    version = run["version"]
    if version != VERSION:
        raise RecordingError(f"{folder} has version {version} of the collector's format; this Jumar reads {VERSION}.")
    parts = {}
    for file in sorted((folder / STEPS).glob("*.json")):
        match = _STEP.fullmatch(file.stem)
        if match is not None:
            arrays = file.with_suffix(".npz")
            tensors = partial(_tensors, arrays) if arrays.is_file() else None
            parts[int(match[1]), 0] = Part(rows=partial(_rows, file), tensors=tensors)
    has_end = (folder / END).is_file()
    told = [] if has_end else ["the run was killed, or goes on: the end of the recording is missing"]
    end = _end(load_json(folder / END)) if has_end else None
    told += end.not_covered if end is not None else ()
    found = Dump(folder, "Jumar's collector", parts, warnings=told, device="", framework=str(run["framework"]))
    layers = {str(place): dict(settings) for place, settings in dict(run.get("layers", {})).items()}
    command = tuple(str(word) for word in run.get("command", ()))
    found.info = replace(found.info, layers=layers, command=command)
    found.ends = {0: end} if end is not None else {}
    return found


def _end(content: Mapping[str, Any]) -> RunEnd:
    return RunEnd(
        rank=0,
        status=content["status"],
        exit_code=int(content["exit_code"]),
        num_steps=int(content["num_steps"]),
        error=str(content["error"]),
        not_covered=tuple(str(one) for one in content["not_covered"]),
    )


def _rows(file: Path) -> list[CallRow]:
    return [_row(one) for one in load_json(file)["rows"]]


def _row(content: Mapping[str, Any]) -> CallRow:
    kind, phase = str(content["kind"]), str(content["phase"])
    if kind not in get_args(Kind) or phase not in get_args(Phase):
        raise ValueError(f"a row of kind {kind!r} and phase {phase!r}")
    arguments = content["arguments"]
    return CallRow(
        step=0,
        rank=0,
        seq=0,
        kind=cast(Kind, kind),
        phase=cast(Phase, phase),
        module_path=str(content["module_path"]),
        module_type=str(content["module_type"]),
        name=str(content["name"]),
        occurrence=int(content["occurrence"]),
        source=str(content["source"]),
        arguments=json.dumps(dict(arguments)) if arguments else "",
        start_us=float(content["start_us"]),
        duration_us=float(content["duration_us"]),
        inputs=tuple(_tensor(one) for one in content["inputs"]),
        outputs=tuple(_tensor(one) for one in content["outputs"]),
    )


def _tensor(content: Mapping[str, Any]) -> TensorRow:
    figures: dict[str, Any] = {name: float(content[name]) for name in _FIGURES if name in content}
    figures |= {name: int(content[name]) for name in ("num_nan", "num_inf") if name in content}
    shape = tuple(int(size) for size in content["shape"])
    if any(size < 0 for size in shape):
        raise ValueError(f"a shape {shape}")
    row = plain_row(str(content["name"]), shape, str(content["dtype"]), **figures)
    return replace(row, format=str(content["format"]))


def _tensors(file: Path, row: CallRow) -> dict[str, np.ndarray]:
    import numpy as np

    with np.load(file, allow_pickle=False) as arrays:
        prefix = f"{row.seq}/"
        return {name[len(prefix) :]: arrays[name] for name in arrays.files if name.startswith(prefix)}


def _recognises(path: Path) -> bool:
    return path.name == RUN if path.is_file() else (path / RUN).is_file()


FORMAT = DumpFormat("a folder of Jumar's collector", _recognises, open_collected)
