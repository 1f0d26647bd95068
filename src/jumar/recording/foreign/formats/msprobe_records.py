"""Reads the records of msprobe's `dump.json` as rows of calls."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jumar.base.errors import RecordingError
from jumar.operators.names import MINDSPORE
from jumar.recording.foreign.values import bare_row, plain_row
from jumar.recording.schema import CallRow, Phase, TensorRow

_FRAME = re.compile(r"File (?P<file>.+?), line (?P<line>\d+), in ")
_DEEPEST = 1000
"""Owners are followed so far: a damaged table may lead in a circle."""
_LIBRARY = ("site-packages", "dist-packages", "/msprobe/", "/torch/", "<frozen")


@dataclass(frozen=True, slots=True)
class Record:
    """A row, and the files of its tensors by tensor name."""

    row: CallRow
    files: dict[str, str]


@dataclass(slots=True)
class _Tensors:
    """Collects the leaves of one side of a record."""

    rows: list[TensorRow] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)

    def take(self, name: str, value: Any) -> None:
        """Take a leaf, or the leaves of a list or table."""
        if isinstance(value, list):
            for index, item in enumerate(value):
                self.take(f"{name}.{index}", item)
        elif isinstance(value, Mapping) and "type" in value:
            self._leaf(name, value)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                self.take(f"{name}.{key}", item)

    def _leaf(self, name: str, leaf: Mapping[str, Any]) -> None:
        if "shape" in leaf and "dtype" in leaf:
            self.rows.append(_tensor(name, leaf))
            if isinstance(leaf.get("data_name"), str):
                self.files[name] = leaf["data_name"]
        elif "value" in leaf:
            self.scalars[name.partition(".")[2] or name] = leaf["value"]


def rows_of(
    data: Mapping[str, Any], construct: Mapping[str, Any], stack: Mapping[str, Any], file: Path
) -> list[Record]:
    """Return the records of a dump in their order. Raises RecordingError where one has another form."""
    sources = _sources(stack)
    records: list[Record] = []
    for key, record in data.items():
        if not isinstance(record, Mapping):
            raise RecordingError(f"{file} has a record {key} that is no table; dump it again.")
        try:
            records.extend(_records(key, record, construct, sources.get(key, "")))
        except (TypeError, ValueError, OverflowError) as error:
            raise RecordingError(f"{file} has a record {key} that cannot be read ({error}); dump it again.") from error
    return records


def _records(key: str, record: Mapping[str, Any], construct: Mapping[str, Any], source: str) -> Iterator[Record]:
    if ".parameters_grad" in key:
        yield from _gradients(key, record)
        return
    kind, name, phase, path, module_type = _identity(key, construct)
    is_module_backward = kind == "module" and phase == "backward"
    sides = ("grad_output", "grad_input") if is_module_backward else ("input", "output")
    inputs, outputs = _Tensors(), _Tensors()
    for entry, value in record.items():
        if entry in {"input_args", "input"}:
            inputs.take(sides[0], value)
        elif entry in {"input_kwargs", "parameters"} and isinstance(value, Mapping):
            for word, item in value.items():
                inputs.take(f"input.{word}", item)
        elif entry in {"output", "data"}:  # level debug saves single values as data
            outputs.take(sides[1], value)
    row = bare_row(
        name,
        tuple(inputs.rows),
        tuple(outputs.rows),
        kind="module" if kind == "module" else "op",
        phase=phase,
        module_path=path,
        module_type=module_type,
        source=source,
        arguments=json.dumps(inputs.scalars) if inputs.scalars else "",
    )
    yield Record(row, {**inputs.files, **outputs.files})


def _gradients(key: str, record: Mapping[str, Any]) -> Iterator[Record]:
    """Return a row of kind `parameter` for each gradient of a module's parameters."""
    path, module_type = _module(key.partition(".parameters_grad")[0])
    for name, value in record.items():
        found = _Tensors()
        found.take("input.grad", value[0] if isinstance(value, list) and value else value)
        row = bare_row(
            name, tuple(found.rows), (), kind="parameter", phase="optimizer", module_path=path, module_type=module_type
        )
        yield Record(row, found.files)


def _identity(key: str, construct: Mapping[str, Any]) -> tuple[str, str, Phase, str, str]:
    """Return kind, name, phase, module path and class of a record's key."""
    parts = key.split(".")
    phase: Phase = "backward" if "backward" in parts[-2:] else "forward"
    if parts[0] in {"Module", "Cell"}:
        stem = key.rsplit(".", 2)[0] if parts[-1].isdecimal() else key.rsplit(".", 1)[0]
        path, module_type = _module(stem)
        return "module", module_type, phase, path, module_type
    api = ".".join(parts[1:-2]) if len(parts) > 3 else ".".join(parts[1:]) or key
    name = api.removeprefix("__").removesuffix("__") if api.startswith("__") and api.endswith("__") else api
    if phase == "backward" and parts[0] != "Aten":  # a function's own backward; aten operators have names of their own
        name += "_backward"
    owner = construct.get(key)
    for _ in range(_DEEPEST):
        if not isinstance(owner, str) or owner.startswith(("Module.", "Cell.")):
            break
        owner = construct.get(owner)
    else:
        raise ValueError(f"construct.json leads from {key} to no module")
    path, module_type = _module(owner.rsplit(".", 2)[0]) if isinstance(owner, str) else ("", "")
    if parts[0] == "Primitive" and len(parts) > 3:  # Primitive.conv2d.Conv2D.0.forward
        return "op", f"{MINDSPORE}{parts[-3]}", phase, path, module_type
    return "op", f"{parts[0].lower()}::{name}", phase, path, module_type


def _module(stem: str) -> tuple[str, str]:
    """Return path and class of `Module.blocks.0.fc1.Linear`."""
    parts = stem.split(".")[1:]
    return ".".join(parts[:-1]), parts[-1] if parts else ""


def _tensor(name: str, leaf: Mapping[str, Any]) -> TensorRow:
    shape = tuple(int(size) for size in leaf["shape"])
    dtype = str(leaf["dtype"]).rpartition(".")[2].lower()  # MindSpore writes Float32
    digest = str(leaf.get("md5") or "")
    values = {word: _number(leaf.get(word)) for word in ("Min", "Max", "Mean", "Norm")}
    if all(value is None for value in values.values()):
        return plain_row(name, shape, dtype, hash=digest)
    has_nan = any(value is not None and math.isnan(value) for value in values.values())
    has_inf = any(value is not None and math.isinf(value) for value in (values["Min"], values["Max"]))
    finite = {word: value if value is not None and math.isfinite(value) else None for word, value in values.items()}
    return plain_row(
        name,
        shape,
        dtype,
        hash=digest,
        minimum=finite["Min"],
        maximum=finite["Max"],
        mean=finite["Mean"],
        l2=finite["Norm"],
        num_nan=int(has_nan),
        num_inf=int(has_inf and not has_nan),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _sources(stack: Mapping[str, Any]) -> dict[str, str]:
    """Return the innermost line outside of libraries for each record's key."""
    found: dict[str, str] = {}
    for entry in stack.values():
        if not (isinstance(entry, list) and len(entry) == 2):
            continue
        names, frames = entry
        known = frames if isinstance(frames, list) else []
        source = next((line for frame in known if (line := _line(frame))), "")
        found |= {name: source for name in (names if isinstance(names, list) else []) if isinstance(name, str)}
    return found


def _line(frame: Any) -> str:
    match = _FRAME.search(frame) if isinstance(frame, str) else None
    if match is None or any(word in match["file"] for word in _LIBRARY):
        return ""
    return f"{Path(match['file']).name}:{match['line']}"
