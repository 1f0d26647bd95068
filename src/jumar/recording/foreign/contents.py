"""Lists what is in a dump, call by call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.recording.foreign.recognise import opened
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow, TensorRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What is in a dump."""

    path: str
    format: str
    steps: tuple[int, ...]
    ranks: tuple[int, ...]
    has_tensors: bool
    calls: tuple[CallRow, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the contents as plain JSON values."""
        return {
            "path": self.path,
            "format": self.format,
            "steps": list(self.steps),
            "ranks": list(self.ranks),
            "has_tensors": self.has_tensors,
            "warnings": list(self.warnings),
            "calls": [_call_json(row) for row in self.calls],
        }


def contents_of(dump: str | Path | RecordingLike, operator: str = "") -> Contents:
    """Return what is in a dump of any known format; only calls that `operator` selects. Raises RecordingError."""
    recording = opened(dump)
    ranks = recording.ranks
    return Contents(
        path=str(recording.path),
        format=str(recording.info.environment.get("format") or "Jumar recording"),
        steps=tuple(sorted({step for rank in ranks for step in recording.steps(rank)})),
        ranks=tuple(ranks),
        has_tensors=recording.has_tensors(),
        calls=tuple(selected(recording, operator)),
        warnings=tuple(recording.warnings),
    )


def selected(recording: RecordingLike, operator: str = "") -> Iterator[CallRow]:
    """Yield the calls whose operator, key or `operator/number` is, or matches as a pattern, `operator`; "" is all."""
    for rank in recording.ranks:
        for step in recording.steps(rank):
            for row in recording.rows(step, rank):
                if not operator or matches(row, operator):
                    yield row


def matches(row: CallRow, operator: str) -> bool:
    """Return whether a pattern means a call: `aten::neg`, `aten::neg/2` (the second), `op/forward/blocks.*`."""
    from fnmatch import fnmatchcase

    wanted = operator.strip("/")
    names = (row.name, f"{row.name}/{row.occurrence + 1}", row.key, row.module_path or "-")
    return any(name == wanted or fnmatchcase(name, wanted) for name in names)


def line(row: CallRow) -> str:
    """Return a call in one line: `0 0 op forward aten::neg/2 input.0 float32[3, 4] -1..2 -> output.0 …`."""
    where = " ".join(part for part in (row.module_path, row.source) if part)
    sides = " -> ".join(", ".join(map(_tensor, side)) or "-" for side in (row.inputs, row.outputs))
    name = f"{row.name}/{row.occurrence + 1}" if row.kind == "op" else row.name
    return f"{row.step} {row.rank} {row.kind} {row.phase} {name}{f' {where}' if where else ''}: {sides}"


def _tensor(tensor: TensorRow) -> str:
    text = f"{tensor.name} {tensor.dtype}{list(tensor.shape)}"
    if tensor.minimum is not None and tensor.maximum is not None:
        text += f" {tensor.minimum:.4g}..{tensor.maximum:.4g}"
    wrong = (tensor.num_nan or 0) + (tensor.num_inf or 0)
    return f"{text} ({wrong:,} not finite)" if wrong else text


def _call_json(row: CallRow) -> dict[str, Any]:
    return {
        "step": row.step,
        "rank": row.rank,
        "kind": row.kind,
        "phase": row.phase,
        "module_path": row.module_path,
        "name": row.name,
        "number": row.occurrence + 1,
        "key": row.key,
        "source": row.source,
        "inputs": [_tensor_json(tensor) for tensor in row.inputs],
        "outputs": [_tensor_json(tensor) for tensor in row.outputs],
    }


def _tensor_json(tensor: TensorRow) -> dict[str, Any]:
    names = ("name", "dtype", "minimum", "maximum", "mean", "l2", "num_nan", "num_inf")
    return {**{name: getattr(tensor, name) for name in names}, "shape": list(tensor.shape)}
