"""Folders of TroubleShooter: `rank0/torch_api_dump/*.npy` and `torch_api_dump_info.csv` (one JSON array a line).

Names are `NN_Linear_0_forward_input.0`; `LAYER_body_0_forward_input` is no tensor but marks that the layer `body.0`
begins, so that the function after it belongs there. A line of the table is
`[name, 1, [], dtype, shape, [maximum, minimum, mean], [], norm]`; figures that were not asked for are NaN.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jumar.base.errors import RecordingError
from jumar.recording import documents
from jumar.recording.foreign.dump import Dump, DumpFormat, Part
from jumar.recording.foreign.safe import load_json, load_npy
from jumar.recording.foreign.values import bare_row, plain_row, tensor_row
from jumar.recording.schema import CallRow, Phase, TensorRow

if TYPE_CHECKING:
    import numpy as np

DATA = re.compile(r"(?:torch|mindspore|mindtorch)_api_dump")
_NAME = re.compile(r"(?P<stem>.+)_(?P<phase>forward|backward)_(?P<side>input|output)(?:\.(?P<index>[\d.]+))?")
_NUMBERED = re.compile(r"(?P<kind>[A-Za-z]+)_(?P<name>.+)_(?P<number>\d+)")
_LAYER = "LAYER_"
_STACK = re.compile(r"(?P<name>\w+)\((?P<number>\d+)\) (?P<phase>forward|backward)")
_STACK_LAYER = re.compile(r"LAYER: (?P<path>\S+) (?:forward|backward)")
_LINE = re.compile(r"File (?P<file>.+?), line (?P<line>\d+), in ")


@dataclass(slots=True)
class _Call:
    """The tensors of one call by tensor name: their line of the table, their file."""

    stem: str
    phase: Phase
    layer: str = ""
    lines: dict[str, list[Any]] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)


@dataclass(slots=True)
class _Stacks:
    """Source lines by (name, number, phase), and layers' paths by their names with underscores."""

    lines: dict[tuple[str, int, str], str] = field(default_factory=dict)
    layers: dict[str, str] = field(default_factory=dict)


def data_folders(path: Path) -> list[Path]:
    """Return the folders of dumps at or below a path, as far as below the ranks' folders; tables count for them."""
    found = {path} if DATA.fullmatch(path.name) else set()
    for pattern in ("*_api_dump*", "*/*_api_dump*"):
        for place in path.glob(pattern):
            match = DATA.match(place.name)
            if match is not None and (place.is_dir() or place.name.endswith("_info.csv")):
                found.add(place.parent / match[0])
    return sorted(found)


def open_troubleshooter(path: Path) -> Dump:
    """Return the dump. Raises RecordingError where a table is damaged."""
    parts: dict[tuple[int, int], Part] = {}
    for folder in data_folders(path):
        match = re.fullmatch(r"rank(\d+)", folder.parent.name)
        parts[0, int(match[1]) if match else len(parts)] = _part(folder)
    return Dump(path, "TroubleShooter", parts)


def _part(folder: Path) -> Part:
    stacks = _stacks(folder.with_name(f"{folder.name}_stack.json"))
    calls = _calls(folder, stacks)

    def tensors(row: CallRow) -> dict[str, np.ndarray]:
        return {name: load_npy(file) for name, file in calls[row.seq].files.items()}

    has_tensors = any(call.files for call in calls)
    return Part(rows=lambda: [_row(call, stacks) for call in calls], tensors=tensors if has_tensors else None)


def _calls(folder: Path, stacks: _Stacks) -> list[_Call]:
    """Return the calls in the order of the table, then those of which there are only files."""
    calls: dict[tuple[str, str], _Call] = {}
    layer = ""
    table = folder.with_name(f"{folder.name}_info.csv")
    for line in _table(table) if table.is_file() else ():
        name = str(line[0])
        if name.startswith(_LAYER):
            layer = _layer(name, stacks)
            continue
        call, tensor = _take(calls, name)
        call.lines[tensor] = line
        if not call.layer and call.stem.startswith(("NN_", "nn_")) and call.phase == "forward":
            call.layer, layer = layer, ""
    for file in sorted(folder.glob("*.npy")) if folder.is_dir() else ():
        if not file.stem.startswith(_LAYER):
            call, tensor = _take(calls, file.stem)
            call.files[tensor] = file
    for call in calls.values():  # the backward of a layer's function belongs to the layer too
        forward = calls.get((call.stem, "forward"))
        call.layer = call.layer or (forward.layer if forward is not None else "")
    return list(calls.values())


def _layer(name: str, stacks: _Stacks) -> str:
    match = _NAME.fullmatch(name)
    plain = (match["stem"] if match else name).removeprefix(_LAYER)
    return stacks.layers.get(plain, plain)


def _take(calls: dict[tuple[str, str], _Call], name: str) -> tuple[_Call, str]:
    """Return the call that a tensor's name names (a new one where it is unknown), and the tensor's name within it."""
    match = _NAME.fullmatch(name)
    if match is None:
        return calls.setdefault((name, "forward"), _Call(name, "forward")), "output.0"
    phase = cast(Phase, match["phase"])
    call = calls.setdefault((match["stem"], phase), _Call(match["stem"], phase))
    return call, f"{match['side']}.{match['index'] or '0'}"


def _table(table: Path) -> Iterator[list[Any]]:
    try:
        texts = table.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordingError(f"{table} cannot be read ({error}); dump it again.") from error
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            line = documents.parse(text)
        except documents.DocumentError as error:
            raise RecordingError(f"{table} is cut short or damaged in line {number}; dump it again.") from error
        if not isinstance(line, list) or not line:
            raise RecordingError(f"{table} must have a JSON array in each line; got another in line {number}.")
        yield line


def _row(call: _Call, stacks: _Stacks) -> CallRow:
    rows = {name: _tensor(name, call) for name in dict.fromkeys((*call.lines, *call.files))}
    match = _NUMBERED.fullmatch(call.stem)
    name = f"{match['kind'].lower()}::{match['name'].lower()}" if match else call.stem
    number = int(match["number"]) if match else -1
    row = bare_row(
        f"{name}_backward" if call.phase == "backward" and match else name,
        tuple(row for key, row in rows.items() if key.startswith("input.")),
        tuple(row for key, row in rows.items() if key.startswith("output.")),
        phase=call.phase,
        module_path=call.layer,
        module_type=match["name"] if match and call.layer else "",
        source=stacks.lines.get((match["name"], number, call.phase), "") if match else "",
    )
    return row if call.layer else replace(row, occurrence=number)


def _tensor(name: str, call: _Call) -> TensorRow:
    line = call.lines.get(name, [])
    if name in call.files:
        dtype = _dtype(line[3]) if len(line) > 3 else ""
        return tensor_row(name, load_npy(call.files[name]), dtype)
    shape = tuple(int(size) for size in line[4]) if len(line) > 4 and isinstance(line[4], list) else ()
    figures = [*(line[5] if len(line) > 5 and isinstance(line[5], list) else []), None, None, None][:3]
    maximum, minimum, mean = (_finite(value) for value in figures)
    norm = _finite(line[7]) if len(line) > 7 else None
    # NOTE: a figure that was not asked for is NaN, so a mean of NaN says nothing; a maximum is always asked for.
    known: dict[str, Any] = {} if figures[0] is None else _counts(figures[:2])
    dtype = _dtype(line[3]) if len(line) > 3 else ""
    return plain_row(name, shape, dtype, maximum=maximum, minimum=minimum, mean=mean, l2=norm, **known)


def _counts(extremes: list[Any]) -> dict[str, int]:
    values = [float(value) for value in extremes if isinstance(value, (int, float))]
    has_nan = bool(values) and all(math.isnan(value) for value in values)
    return {"num_nan": int(has_nan), "num_inf": int(any(math.isinf(value) for value in values))}


def _dtype(text: Any) -> str:
    return str(text).rpartition(".")[2].strip("'<> ")


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _stacks(file: Path) -> _Stacks:
    """Return what the file of stacks says: `torch.nn.Linear(0) forward` and `LAYER: body.0 forward` to frames."""
    found = _Stacks()
    stacks = load_json(file) if file.is_file() else {}
    for key, frames in stacks.items() if isinstance(stacks, dict) else ():
        layer, call = _STACK_LAYER.fullmatch(key), _STACK.search(key)
        if layer is not None:
            found.layers[layer["path"].replace(".", "_")] = layer["path"]
        elif call is not None and isinstance(frames, list) and frames:
            line = _LINE.search(str(frames[0]))
            if line is not None:
                source = f"{Path(line['file']).name}:{line['line']}"
                found.lines[call["name"], int(call["number"]), call["phase"]] = source
    return found


FORMAT = DumpFormat(
    "TroubleShooter's folder", lambda path: path.is_dir() and bool(data_folders(path)), open_troubleshooter
)
