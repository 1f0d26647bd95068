"""Recordings made in memory: rows written by hand, values as NumPy arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jumar.base.errors import RecordingError
from jumar.recording import CallRow, RunEnd, RunInfo, TensorRow

Array = np.ndarray


def tensor_row(name: str, array: Array, storage: int, dtype: str | None = None) -> TensorRow:
    """Return a row with the statistics of `array`, as capture takes them."""
    values = np.asarray(array).astype(np.float64)
    finite = values[np.isfinite(values)]
    figures: dict[str, Any] = {"num_nan": int(np.isnan(values).sum()), "num_inf": int(np.isinf(values).sum())}
    if finite.size:
        figures |= {
            "minimum": float(finite.min()),
            "maximum": float(finite.max()),
            "mean": float(finite.mean()),
            "l2": float(np.sqrt((finite**2).sum())),
        }
    return TensorRow(
        name=name,
        shape=tuple(array.shape),
        dtype=dtype or str(array.dtype),
        device="cpu",
        stride=(),
        storage_offset=0,
        contiguous=True,
        storage=storage,
        **figures,
    )


class Run:
    """Collects calls of one run. Arrays that are one object share a storage, as tensors do."""

    def __init__(
        self, *, values: str = "stats", device: str = "cpu", settings: Mapping[str, Any] | None = None
    ) -> None:
        self.path = Path(device)
        self.info = RunInfo(device=device, values=values, settings=dict(settings or {}))  # type: ignore[arg-type]
        self.warnings: list[str] = []
        self.ends: dict[int, RunEnd] = {}
        self._rows: dict[tuple[int, int], list[CallRow]] = {}
        self._tensors: dict[tuple[int, int, str], dict[str, Array]] = {}
        self._storages: dict[int, int] = {}
        self._keep: list[Array] = []

    def call(
        self,
        name: str,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        *,
        path: str = "net",
        phase: str = "forward",
        kind: str = "op",
        step: int = 0,
        rank: int = 0,
        arguments: Mapping[str, Any] | None = None,
        source: str = "train.py:1",
        dtype: str | None = None,
    ) -> Array:
        """Add a call and return its first output."""
        rows = self._rows.setdefault((step, rank), [])
        occurrence = sum((row.module_path, row.phase, row.name) == (path, phase, name) for row in rows)
        row = CallRow(
            step=step,
            rank=rank,
            seq=len(rows),
            kind=kind,  # type: ignore[arg-type]
            phase=phase,  # type: ignore[arg-type]
            module_path=path,
            module_type="Net" if path else "",
            name=name,
            occurrence=occurrence,
            source=source,
            arguments=json.dumps(arguments) if arguments else "",
            inputs=tuple(tensor_row(f"input.{i}", a, self._storage(a), dtype) for i, a in enumerate(inputs)),
            outputs=tuple(tensor_row(f"output.{i}", a, self._storage(a), dtype) for i, a in enumerate(outputs)),
        )
        rows.append(row)
        arrays = {f"input.{i}": a.copy() for i, a in enumerate(inputs)}
        self._tensors[step, rank, row.key] = arrays | {f"output.{i}": a.copy() for i, a in enumerate(outputs)}
        return outputs[0] if outputs else np.zeros(0)

    def parameter(self, name: str, gradient: Array, value: Array, *, path: str = "net", step: int = 0) -> None:
        """Add the row of a trained parameter at the end of the step: its gradient and its value afterwards."""
        rows = self._rows.setdefault((step, 0), [])
        row = CallRow(
            step=step,
            rank=0,
            seq=len(rows),
            kind="parameter",
            phase="optimizer",
            module_path=path,
            module_type="Net",
            name=name,
            occurrence=0,
            inputs=(tensor_row("input.grad", gradient, self._storage(gradient)),),
            outputs=(tensor_row("output.0", value, self._storage(value)),),
        )
        rows.append(row)
        self._tensors[step, 0, row.key] = {"input.grad": gradient.copy(), "output.0": value.copy()}

    def optimizer(self, groups: Sequence[Mapping[str, Any]], *, name: str = "AdamW", step: int = 0) -> None:
        """Add the row of an optimizer's step."""
        rows = self._rows.setdefault((step, 0), [])
        rows.append(
            CallRow(
                step=step,
                rank=0,
                seq=len(rows),
                kind="optimizer",
                phase="optimizer",
                module_path="",
                module_type="",
                name=name,
                occurrence=0,
                source="train.py:9",
                arguments=json.dumps({name: [group[name] for group in groups] for name in groups[0]}),
            )
        )

    def loss(self, value: float, step: int = 0) -> None:
        """Add a loss row."""
        self.call("loss", [], [np.array(value)], path="", kind="loss", step=step)

    def forget_storages(self) -> None:
        """Leave out which tensors share memory, as dumps of other tools do."""
        for rows in self._rows.values():
            for place, row in enumerate(rows):
                sides = ([replace(tensor, storage=0) for tensor in side] for side in (row.inputs, row.outputs))
                inputs, outputs = map(tuple, sides)
                rows[place] = replace(row, inputs=inputs, outputs=outputs)

    def empty_step(self, step: int) -> None:
        """Add a step without a call."""
        self._rows.setdefault((step, 0), [])

    def _storage(self, array: Array) -> int:
        self._keep.append(array)
        return self._storages.setdefault(id(array), len(self._storages) + 1)

    @property
    def ranks(self) -> list[int]:
        return sorted({rank for _, rank in self._rows})

    def steps(self, rank: int = 0) -> list[int]:
        return sorted(step for step, of in self._rows if of == rank)

    def rows(self, step: int, rank: int = 0) -> list[CallRow]:
        return self._rows[step, rank]

    def losses(self, rank: int = 0) -> list[tuple[int, float]]:
        rows = [row for step in self.steps(rank) for row in self.rows(step, rank) if row.kind == "loss"]
        found = []
        for row in rows:
            output = row.outputs[0]
            found.append((row.step, float("nan") if output.num_nan else output.mean or 0.0))
        return found

    def has_tensors(self) -> bool:
        return self.info.values == "tensors"

    def tensors(self, row: CallRow) -> dict[str, Array]:
        if not self.has_tensors():
            raise RecordingError("no tensors")
        return self._tensors[row.step, row.rank, row.key]


def mlp(run: Run, *, seed: int = 0, data_seed: int = 1, step: int = 0, wrong: Mapping[str, Any] | None = None) -> Run:
    """Add one step of a small network to `run`; `wrong` maps a layer to what happens to its output."""
    wrong = wrong or {}
    weights = np.random.default_rng(seed)
    data = np.random.default_rng(data_seed)
    hidden = data.standard_normal((64, 32)).astype(np.float32)
    for layer in range(4):
        weight = (weights.standard_normal((32, 32)) / 6).astype(np.float32)
        path = f"layers.{layer}"
        out = run.call("aten::mm", [hidden, weight], [_spoiled(hidden @ weight, wrong.get(path))], path=path, step=step)
        hidden = run.call("aten::relu", [out], [np.maximum(out, 0)], path=path, step=step)
    run.loss(float(np.abs(hidden).mean()), step)
    return run


def _spoiled(array: Array, change: Any) -> Array:
    return array if change is None else change(array).astype(array.dtype)
