"""`write_repro`: finds the recorded operator that the user names, and writes the folder of its case."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jumar.base.errors import DeviceError, OutputError, UsageError
from jumar.base.files import explained, new_folder
from jumar.comparison.model.results import plain
from jumar.comparison.replay.engine import Engine, replay
from jumar.comparison.replay.findings import ranked
from jumar.comparison.replay.rebuilt.memory import Array, to_tensor, torch_dtype
from jumar.comparison.replay.rebuilt.place import Place, chip_of, place_of
from jumar.comparison.replay.results import Replayed
from jumar.comparison.replay.selection import Selection
from jumar.comparison.repro.build import build
from jumar.comparison.repro.calls import tensor_name
from jumar.comparison.repro.case import Case
from jumar.comparison.repro.documents import TEST, readme
from jumar.comparison.repro.reduce import reduce
from jumar.comparison.repro.script import script_source, title
from jumar.recording import CallRow, RunInfo
from jumar.recording.foreign.recognise import opened
from jumar.recording.reader import RecordingLike

FILES = ("repro.py", "tensors.npz", "test_repro.py", "README.md")
MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Repro:
    """What was written."""

    path: Path
    title: str
    error: float | None
    """Own error of the recorded output, over all judged outputs the one that exceeds its tolerance by most."""
    tolerance: float | None
    size_bytes: int
    """Of the tensor file."""
    chosen: str
    """How the operator was chosen; empty when it was named."""
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        data: dict[str, Any] = plain(
            {item.name: getattr(self, item.name) for item in fields(self) if item.name != "path"}
        )
        return {**data, "path": str(self.path)}


def write_repro(
    recording: str | Path | RecordingLike,
    operator: str,
    out: str | Path,
    *,
    against: str | Path | RecordingLike | None = None,
    context: int = 0,
    max_bytes: int = MAX_BYTES,
    force: bool = False,
) -> Repro:
    """Write a folder that shows one recorded operator: script, tensor file, pytest and README.

    `operator` is a row key, a glob, `blocks.3.fc1 aten::addmm`, or `first` (with `against`, the first divergence
    from that recording). `context` operators before it are taken in, as far as they were recorded. Tensors beyond
    `max_bytes` are sliced while the error stays. Raises RecordingError, UsageError when `operator` names nothing,
    InputError when it cannot be executed outside of its run, OutputError when `out` holds something else.
    """
    _check_free(Path(out), force)
    opened_recording = opened(recording)
    row, how = pick(opened_recording, operator, against)
    case = build(opened_recording, row, context)
    case = reduce(case, max_bytes, _device(opened_recording.info) if case.size_bytes() > max_bytes else None)
    _write(case, Path(out), how)
    worst = case.own.worst
    return Repro(
        path=Path(out),
        title=title(case),
        error=worst.error if worst is not None else None,
        tolerance=worst.tolerance if worst is not None else None,
        size_bytes=(Path(out) / "tensors.npz").stat().st_size,
        chosen=how,
        notes=case.notes,
    )


def _device(info: RunInfo) -> Place | None:
    """Return the recorded device where this machine has it. (Every machine has the emulated NPU.)"""
    try:
        if info.device.startswith("npu"):
            return place_of("npu", chip_of(info))
        return place_of("cuda", "") if info.device == "cuda" else None
    except DeviceError:
        return None


def _check_free(out: Path, force: bool) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    is_ours = out.is_dir() and {path.name for path in out.iterdir()} <= {*FILES, "__pycache__", ".pytest_cache"}
    if not is_ours:
        raise OutputError(f"{out} holds something that is not a case of Jumar's. Choose another folder with -o.")
    if not force:
        raise OutputError(f"{out} already holds a case. Replace it with --force, or choose another folder with -o.")


def _write(case: Case, out: Path, how: str) -> None:
    with explained(out, "choose another folder with -o"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with new_folder(out, replace=True) as draft:
            (draft / "repro.py").write_text(script_source(case), "utf-8")
            (draft / "test_repro.py").write_text(TEST, "utf-8")
            (draft / "README.md").write_text(readme(case, how), "utf-8")
            write(case, draft / "tensors.npz")


RAW = {"bfloat16": (torch.int16, np.uint16), "complex32": (torch.int32, np.uint32)}


def write(case: Case, path: Path) -> None:
    """Write the tensors of the case. Raises OSError."""
    prefix = f"{len(case.steps) - 1}." if len(case.steps) > 1 else ""
    arrays: dict[str, Array] = {}
    for position, step in enumerate(case.steps):
        for tensor in step.loaded:
            arrays[tensor_name(case, position, tensor)] = raw(step.inputs.arrays[tensor.name], tensor.dtype)
    for tensor in case.outputs:
        arrays[f"recorded.{prefix}{tensor.name}"] = raw(case.last.inputs.arrays[tensor.name], tensor.dtype)
        if case.exact is not None:
            arrays[f"exact.{prefix}{tensor.name}"] = case.exact[tensor.name]
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def raw(array: Array, dtype: str) -> Array:
    """Return the array as it is stored: dtypes that NumPy lacks as raw unsigned integers."""
    if dtype in RAW and array.dtype != RAW[dtype][1]:
        signed, unsigned = RAW[dtype]
        return to_tensor(array, torch_dtype(dtype)).view(signed).numpy().view(unsigned)
    if dtype.startswith("float8"):
        return to_tensor(array, torch_dtype(dtype)).view(torch.uint8).numpy()
    return np.asarray(array)


FIRST = "first"
MAX_TRIED = 500
"""Operators that a glob may match and that are replayed to find the worst."""


def pick(recording: RecordingLike, operator: str, against: str | Path | RecordingLike | None) -> tuple[CallRow, str]:
    """Return the row that `operator` names and a sentence on how it was chosen (empty when it names one row).

    `operator` is a row key, an operator's name, a module path and an operator (`blocks.3.fc1 aten::addmm`), a glob
    over these, each with a step prefix if wanted, or `first`: the first divergence from the recording `against`.
    Of several rows the one whose own error is greatest is taken. Raises UsageError when nothing is meant,
    RecordingError when a recording cannot be read.
    """
    if operator == FIRST:
        return _first(recording, against)
    patterns = _patterns(operator)
    rows = [row for _, _, found in Selection(recording, patterns) for row in found]
    if len(rows) == 1:
        return rows[0], ""
    tried = rows[:MAX_TRIED]
    engine = Engine(recording)
    worst = ranked([engine.row(row) for row in tried])[0]
    among = f"{len(rows):,}" if len(rows) <= MAX_TRIED else f"the first {MAX_TRIED:,} of {len(rows):,}"
    return worst.row, f"of {among} calls that match {operator}, the one with the greatest error of its own"


def _patterns(operator: str) -> list[str]:
    """Return the globs over row keys that `operator` stands for."""
    module, _, name = operator.strip().rpartition(" ")
    if not module:
        return [operator]
    step, colon, path = module.strip().rpartition(":")
    prefix = f"{step}:" if colon else ""
    return [f"{prefix}op/*/{path}/{name}{end}/*" for end in ("", ".*")]


def _first(recording: RecordingLike, against: str | Path | RecordingLike | None) -> tuple[CallRow, str]:
    if against is None:
        return _first_fault(recording)
    from jumar.comparison.verdict.compare import compare

    reference = opened(against)
    diff = compare(reference, recording).first_divergence
    if diff is None or diff.target_seq is None or diff.kind != "op":
        raise UsageError(
            f"the comparison of {reference.path} with {recording.path} names no operator of {recording.path} as the "
            "first divergence. Name an operator by its row key, as jumar replay lists them."
        )
    rows = recording.rows(diff.step, diff.rank)
    row = next(row for row in rows if row.seq == diff.target_seq)
    return row, f"the first divergence from {reference.path}"


def _first_fault(recording: RecordingLike) -> tuple[CallRow, str]:
    faults: list[Replayed] = [row for row in replay(recording) if row.verdict == "own fault"]
    if not faults:
        raise UsageError(
            f"no operator of {recording.path} has an error of its own, so there is no first one. Name an operator, or "
            "give the reference's recording with --against."
        )
    return faults[0].row, f"the first of {len(faults):,} operators with an error of their own"
