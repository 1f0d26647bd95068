"""Writes the folder of a case: `write_repro`."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from jumar.accuracy.replay.place import Place, chip_of, place_of
from jumar.accuracy.repro.build import build
from jumar.accuracy.repro.case import Case
from jumar.accuracy.repro.documents import TEST, readme
from jumar.accuracy.repro.pick import pick
from jumar.accuracy.repro.reduce import reduce
from jumar.accuracy.repro.script import script_source, title
from jumar.accuracy.repro.tensors import write
from jumar.accuracy.results import plain
from jumar.accuracy.source import RecordingLike, opened
from jumar.errors import DeviceError, OutputError
from jumar.recording import RunInfo

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
    """Return the recorded device where this machine has it (an emulated NPU can be had anywhere)."""
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
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        try:
            (part / "repro.py").write_text(script_source(case), "utf-8")
            (part / "test_repro.py").write_text(TEST, "utf-8")
            (part / "README.md").write_text(readme(case, how), "utf-8")
            write(case, part / "tensors.npz")
            if out.exists():
                shutil.rmtree(out)
            part.chmod(0o755)
            part.replace(out)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"{out} cannot be written: {error.strerror}. Choose another folder with -o.") from error
