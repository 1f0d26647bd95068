"""`Notes`: the notebook of the collector. It keeps the rows of the step under way and writes finished steps.

FOLDER/
  collected.json             written first: version, framework, versions, command; layers after the first step
  steps/step-000000.json     the rows of a step
  steps/step-000000.npz      with `--values tensors`: the elements, by place of the row and name of the tensor
  end.json                   written last: status, steps, what is not covered
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from jumar.capture.frameworks.tensorflow.observe.layouts import Layouts

VERSION = 1
RUN, END, STEPS = "collected.json", "end.json", "steps"
_RAW = {"bfloat16": np.uint16}


class Draft:
    """A row that is not finished."""

    def __init__(self, kind: str, phase: str, path: str, type_name: str, name: str, occurrence: int) -> None:
        self.kind, self.phase, self.path, self.type_name = kind, phase, path, type_name
        self.name, self.occurrence = name, occurrence
        self.source = ""
        self.arguments: dict[str, Any] = {}
        self.start_us = self.duration_us = 0.0
        self.inputs: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []
        self.arrays: dict[str, Any] = {}

    def record(self) -> dict[str, Any]:
        """Return the row as it is written."""
        return {
            "kind": self.kind,
            "phase": self.phase,
            "module_path": self.path,
            "module_type": self.type_name,
            "name": self.name,
            "occurrence": self.occurrence,
            "source": self.source,
            "arguments": self.arguments,
            "start_us": self.start_us,
            "duration_us": self.duration_us,
            "inputs": self.inputs,
            "outputs": self.outputs,
        }


class OwnWork:
    """Keeps errors of the collector from the program, and its time from the rows. May be entered inside itself."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def __enter__(self) -> None:
        notes = self._notes
        if not notes.depth:
            notes.paused_at = time.perf_counter()
        notes.depth += 1

    def __exit__(self, _: Any, error: Any, __: Any) -> bool:
        notes = self._notes
        notes.depth -= 1
        if not notes.depth:
            notes.own_s += time.perf_counter() - notes.paused_at
        if not isinstance(error, Exception):
            return False
        notes.failure = notes.failure or f"the observer failed: {type(error).__name__}: {error}"
        notes.is_open = False
        return True


class Notes:
    """Takes notes while `is_open`."""

    def __init__(self, folder: str, keeps_tensors: bool, layouts: Layouts) -> None:
        self.folder, self.keeps_tensors, self.layouts = folder, keeps_tensors, layouts
        self.is_open = False
        self.failure = ""
        """Why no more notes are taken; empty while they are."""
        self.info: dict[str, Any] = {}
        self.rows: list[Draft] = []
        self.depth, self.own_s, self.paused_at = 0, 0.0, 0.0
        self._counts: Counter[tuple[str, str, str, str]] = Counter()
        self._began = time.perf_counter()

    def begin_step(self) -> None:
        """Forget the step before."""
        self.rows, self.info = [], {}
        self._counts.clear()
        self._began = time.perf_counter() - self.own_s

    def own_work(self) -> OwnWork:
        """Do the observer's own work."""
        return OwnWork(self)

    def now_us(self) -> float:
        """Return the time since the step began, without the observer's own work, in microseconds."""
        now = self.paused_at if self.depth else time.perf_counter()
        return (now - self.own_s - self._began) * 1e6

    def draft(self, kind: str, phase: str, path: str, type_name: str, name: str) -> Draft:
        """Begin a row."""
        place = (kind, phase, path, name)
        self._counts[place] += 1
        found = Draft(kind, phase, path, type_name, name, self._counts[place] - 1)
        found.start_us = self.now_us()
        return found

    def see(self, draft: Draft, named: Iterable[tuple[str, Any]], *, outputs: bool = False) -> None:
        """Add tensors to a row, as they are now."""
        side = draft.outputs if outputs else draft.inputs
        for name, tensor in named:
            array, order = self.layouts.array(tensor)
            dtype = str(getattr(tensor.dtype, "name", tensor.dtype))
            side.append(
                dict(
                    {"name": name, "shape": list(array.shape), "dtype": dtype, "format": order or "ND"},
                    **figures(array),
                )
            )
            if self.keeps_tensors:
                raw = _RAW.get(dtype)
                draft.arrays[name] = np.array(np.ascontiguousarray(array).view(raw) if raw is not None else array)

    def finish(self, draft: Draft) -> None:
        """Take a row in."""
        self.rows.append(draft)

    def write(self, step: int) -> None:
        """Write the rows of a step. Raises OSError."""
        place = Path(self.folder, STEPS)
        if self.keeps_tensors:
            arrays = {
                f"{number}/{name}": array for number, row in enumerate(self.rows) for name, array in row.arrays.items()
            }
            part = place / f"step-{step:06d}.part"
            with part.open("wb") as file:
                np.savez(file, **arrays)
            part.replace(place / f"step-{step:06d}.npz")
        rows = [row.record() for row in self.rows]
        write_json(place / f"step-{step:06d}.json", {"step": step, "info": self.info, "rows": rows})


def figures(array: Any) -> dict[str, Any]:
    """Return minimum, maximum, mean and L2 norm over the finite elements, and how many are NaN and Inf."""
    if array.dtype.kind not in "fcbiu":
        if array.dtype.name not in _RAW:
            return {}
        array = array.astype(np.float32)
    values = np.abs(array) if array.dtype.kind == "c" else array
    values = values.reshape(-1).astype(np.float64)
    finite = np.isfinite(values)
    num_nan = int(np.count_nonzero(np.isnan(values)))
    found: dict[str, Any] = {"num_nan": num_nan, "num_inf": int(values.size - np.count_nonzero(finite) - num_nan)}
    kept = values if finite.all() else values[finite]
    if kept.size:
        scale = float(np.abs(kept).max())
        norm = scale * float(np.sqrt(np.sum((kept / scale) ** 2))) if scale else 0.0
        found.update(minimum=float(kept.min()), maximum=float(kept.max()), mean=float(kept.mean()), l2=norm)
    return found


def write_json(path: Path, content: Any) -> None:
    """Write a file whole or not at all. Raises OSError."""
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as file:
        json.dump(content, file, default=str)
    part.replace(path)
