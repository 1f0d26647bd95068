"""Writes calls as msprobe's `dump.json`, `construct.json` and `stack.json`.

Keys are made as msprobe makes them: `Module.{path}.{class}.{direction}.{number}` and
`Aten.{operator}.{number}.{direction}`. Tensors are `.pt` files where PyTorch is there.
"""

from __future__ import annotations

import json
import math
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.base.errors import RecordingError
from jumar.base.files import write_atomically, write_text
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow, TensorRow

if TYPE_CHECKING:
    import numpy as np

DATA_FOLDER = "dump_tensor_data"


def write_part(recording: RecordingLike, rows: Sequence[CallRow], folder: Path) -> int:
    """Write the calls of one step and rank into `folder` and return their number. Raises OSError.

    The optimizer's operators are left out: msprobe has no phase for them.
    """
    rows = [row for row in rows if row.kind in {"op", "module"} and row.phase != "optimizer"]
    keys = _keys(rows)
    has_tensors = recording.has_tensors()
    folder.mkdir(parents=True, exist_ok=True)
    data: dict[str, Any] = {}
    for row in rows:
        arrays = _arrays(recording, row) if has_tensors else {}
        key = keys[row.seq]
        files = _write_tensors(folder / DATA_FOLDER, key, arrays)
        data[key] = _record(row, arrays, files)
    document = {
        "task": "tensor" if has_tensors else "statistics",
        "level": _level(rows),
        "framework": "pytorch",
        "dump_data_dir": str((folder / DATA_FOLDER).absolute()) if has_tensors else None,
        "data": data,
    }
    for name, table in (("stack.json", _stack(rows, keys)), ("construct.json", _construct(rows, keys))):
        write_text(folder / name, json.dumps(table, indent=1))
    write_text(folder / "dump.json", json.dumps(document, indent=1))  # last: it says the rest is there
    return len(rows)


def _level(rows: Sequence[CallRow]) -> str:
    kinds = {row.kind for row in rows}
    return "mix" if len(kinds) > 1 else "L0" if kinds == {"module"} else "L1"


def _keys(rows: Sequence[CallRow]) -> dict[int, str]:
    """Return the key of each row by its position."""
    seen: Counter[tuple[str, str]] = Counter()
    keys: dict[int, str] = {}
    for row in rows:
        direction = "backward" if row.phase == "backward" else "forward"
        if row.kind == "module":
            stem = ".".join(part for part in ("Module", row.module_path, row.module_type or row.name) if part)
            keys[row.seq] = f"{stem}.{direction}.{seen[stem, direction]}"
        else:
            stem = f"Aten.{row.name.rpartition('::')[2].replace('/', '_')}"
            keys[row.seq] = f"{stem}.{seen[stem, direction]}.{direction}"
        seen[stem, direction] += 1
    return keys


def _record(row: CallRow, arrays: dict[str, np.ndarray], files: dict[str, str]) -> dict[str, Any]:
    leaves = {t.name: _leaf(t, arrays.get(t.name), files.get(t.name)) for t in (*row.inputs, *row.outputs)}
    if row.phase == "backward":
        return {"input": [leaves[t.name] for t in row.inputs], "output": [leaves[t.name] for t in row.outputs]}
    named = [t for t in row.inputs if not t.name.partition(".")[2][:1].isdecimal()]
    return {
        "input_args": [leaves[t.name] for t in row.inputs if t not in named],
        "input_kwargs": {t.name.partition(".")[2]: leaves[t.name] for t in named} | _scalars(row),
        "output": [leaves[t.name] for t in row.outputs],
    }


def _scalars(row: CallRow) -> dict[str, Any]:
    try:
        found = json.loads(row.arguments) if row.arguments else {}
    except ValueError:
        return {}
    return {
        name: {"type": type(value).__name__, "value": value}
        for name, value in (found.items() if isinstance(found, dict) else ())
        if isinstance(value, (bool, int, float, str))
    }


def _leaf(tensor: TensorRow, array: np.ndarray | None, file: str | None) -> dict[str, Any]:
    minimum, maximum = tensor.minimum, tensor.maximum
    mean, norm = tensor.mean, tensor.l2
    if tensor.num_nan:
        minimum = maximum = mean = norm = math.nan
    elif tensor.num_inf:  # the sign is not recorded: the tensor says it where there is one
        values = [math.inf] if array is None else [float(array.max()), float(array.min())]
        maximum, minimum = max(values), min(values) if array is not None else minimum
        mean = norm = math.inf
    leaf: dict[str, Any] = {
        "type": "torch.Tensor",
        "dtype": f"torch.{tensor.dtype}",
        "shape": list(tensor.shape),
        "Max": maximum,
        "Min": minimum,
        "Mean": mean,
        "Norm": norm,
        "requires_grad": False,
    }
    if array is not None:
        leaf["md5"] = f"{zlib.crc32(array.tobytes()):08x}"
    return leaf | ({"data_name": file} if file else {})


def _write_tensors(folder: Path, key: str, arrays: dict[str, np.ndarray]) -> dict[str, str]:
    if not arrays:
        return {}
    import torch

    folder.mkdir(exist_ok=True)
    files: dict[str, str] = {}
    for name, array in arrays.items():
        files[name] = f"{key}.{name.replace('/', '_')}.pt"
        tensor = torch.from_numpy(array.copy())
        write_atomically(folder / files[name], lambda part, t=tensor: torch.save(t, part))  # type: ignore[misc]
    return files


def _arrays(recording: RecordingLike, row: CallRow) -> dict[str, np.ndarray]:
    try:
        return recording.tensors(row)
    except RecordingError:
        return {}


def _construct(rows: Sequence[CallRow], keys: dict[int, str]) -> dict[str, str | None]:
    """Return the parent of each record: the module that was under way, by its path, its own parent for a module."""
    modules = [row for row in rows if row.kind == "module"]
    if not modules:
        return {}
    return {keys[row.seq]: _parent(row, modules, keys) for row in rows}


def _parent(row: CallRow, modules: Sequence[CallRow], keys: dict[int, str]) -> str | None:
    path = row.module_path if row.kind == "op" else row.module_path.rpartition(".")[0]
    while True:
        same = [m for m in modules if m.module_path == path and m.phase == row.phase and m is not row]
        after = next((m for m in same if m.seq > row.seq), None)
        if after is not None:
            return keys[after.seq]
        if not path:
            return None
        path = path.rpartition(".")[0]


def _stack(rows: Sequence[CallRow], keys: dict[int, str]) -> dict[str, Any]:
    by_source: dict[str, list[str]] = {}
    for row in rows:
        if row.source:
            by_source.setdefault(row.source, []).append(keys[row.seq])
    return {str(index): [names, [_frame(source)]] for index, (source, names) in enumerate(by_source.items())}


def _frame(source: str) -> str:
    file, _, line = source.rpartition(":")
    return f"File {file or source}, line {line if file else 0}, in forward, \n "
