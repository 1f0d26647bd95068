"""Recordings of small networks of several frameworks, written by hand: `Side`, `two_layers`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from recording_builder import Array, tensor_row

from jumar.recording import CallRow, Recording, RecordingWriter, RunEnd, RunInfo


class Side:
    """Collects the rows of one step. Arrays that are one object share a storage, as tensors do."""

    def __init__(self, framework: str, layers: Mapping[str, dict[str, Any]] | None = None) -> None:
        self.info = RunInfo(framework=framework, device="cpu", values="stats", layers=dict(layers or {}))
        self.rows: list[CallRow] = []
        self._storages: dict[int, int] = {}
        self._keep: list[Array] = []

    def add(
        self,
        name: str,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        *,
        kind: str = "module",
        phase: str = "forward",
        path: str = "",
        module_type: str = "",
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a row."""
        occurrence = sum(
            (row.kind, row.phase, row.module_path, row.name) == (kind, phase, path, name) for row in self.rows
        )
        sides = (
            tuple(tensor_row(key, one, self._storage(one)) for key, one in tensors.items())
            for tensors in (inputs, outputs)
        )
        given, made = sides
        self.rows.append(
            CallRow(
                step=0, rank=0, seq=len(self.rows), kind=kind, phase=phase, module_path=path, module_type=module_type,  # type: ignore[arg-type]
                name=name, occurrence=occurrence, source="train.py:7",
                arguments=json.dumps(arguments) if arguments else "", inputs=given, outputs=made,
            )
        )  # fmt: skip

    def module(self, path: str, kind: str, given: Array, made: Array) -> None:
        """Add a module's call."""
        self.add(kind, {"input.0": given}, {"output.0": made}, path=path, module_type=kind)

    def module_first(self, path: str, kind: str, given: Array, made: Array) -> None:
        """Add a module's call before all others."""
        self.module(path, kind, given, made)
        rows = [self.rows[-1], *self.rows[:-1]]
        self.rows = [replace(row, seq=seq) for seq, row in enumerate(rows)]

    def backward(self, path: str, kind: str, given: Array, made: Array | None) -> None:
        """Add the gradients of a module's result and, where it is shown, of what it read."""
        outputs = {} if made is None else {"grad_input.0": made}
        self.add(kind, {"grad_output.0": given}, outputs, phase="backward", path=path, module_type=kind)

    def parameter(self, path: str, kind: str, name: str, gradient: Array, value: Array, optimizer: str = "SGD") -> None:
        """Add a parameter at the end of the step."""
        told = {"optimizer": optimizer, "occurrences": [0], "group": 0}
        self.add(
            name, {"input.grad": gradient}, {"output.0": value},
            kind="parameter", phase="optimizer", path=path, module_type=kind, arguments=told,
        )  # fmt: skip

    def loss(self, value: float) -> None:
        """Add the loss."""
        self.add("loss", {}, {"output.0": np.array(value)}, kind="loss")

    def optimizer(self, name: str, **settings: Any) -> None:
        """Add the optimizer's step: one group."""
        lists = {setting: [value] for setting, value in settings.items()}
        self.add(name, {}, {}, kind="optimizer", phase="optimizer", arguments=lists)

    def written(self, folder: Path) -> Recording:
        """Write the recording and open it."""
        writer = RecordingWriter(folder, self.info)
        writer.write_step(0, self.rows)
        writer.close(RunEnd(rank=0, status="finished", num_steps=1))
        return Recording.open(folder)

    def renamed(self, names: Mapping[str, str]) -> Side:
        """Return the side with other module paths."""
        layers = {names.get(path, path): settings for path, settings in self.info.layers.items()}
        found = Side(self.info.framework, layers)
        found.rows = [replace(row, module_path=names.get(row.module_path, row.module_path)) for row in self.rows]
        return found

    @staticmethod
    def as_class(row: CallRow, kind: str) -> CallRow:
        """Return a module's row under another class."""
        return replace(row, name=kind, module_type=kind)

    def _storage(self, array: Array) -> int:
        self._keep.append(array)
        return self._storages.setdefault(id(array), len(self._storages) + 1)


LINEAR = {"torch": "Linear", "tensorflow": "Dense", "mindspore": "Dense"}
SGD = {"torch": {"lr": 0.1, "momentum": 0.9}, "tensorflow": {"learning_rate": 0.1, "momentum": 0.9}}
SGD["mindspore"] = SGD["tensorflow"]


def two_layers(
    framework: str, form: str, *, wrong: float = 0.0, activation: str = "relu", extra: Sequence[str] = ()
) -> Side:
    """Return a step of `fc1`, an activation, `fc2`.

    `form` says where the activation is: `module`, `function`, or `built-in` (in fc1 itself). `wrong` is the relative
    error of the activation's result. `extra` names modules called `flat` before (Flatten) or `drop` after it (Dropout).
    """
    numbers = np.random.default_rng(0)
    x, w1, w2 = (numbers.standard_normal(shape).astype(np.float32) for shape in ((16, 8), (8, 6), (6, 4)))
    z = x @ w1
    h = (np.maximum(z, 0) * (1 + wrong)).astype(np.float32)
    y = h @ w2
    gy = np.ascontiguousarray(y / 10)
    gh = gy @ w2.T
    gz = (gh * (z > 0)).astype(np.float32)
    kind, names = LINEAR[framework], ("kernel" if framework == "tensorflow" else "weight")
    layers: dict[str, dict[str, Any]] = {"fc1": {"type": kind}, "fc2": {"type": kind}}
    if form == "built-in":
        layers["fc1"]["activation"] = activation
    side = Side(framework, layers)
    for name, cls in (("flat", "Flatten"),):
        if name in extra:
            side.module(name, cls, x, x)
    side.module("fc1", kind, x, h if form == "built-in" else z)
    if form == "module":
        side.module("act", "ReLU", z, h)
    if "drop" in extra:
        side.module("drop", "Dropout", h, h)
    side.module("fc2", kind, h, y)
    side.module("", f"Net{framework}", x, y)
    side.loss(float(np.abs(y).mean()))
    side.backward("", f"Net{framework}", gy, None)
    side.backward("fc2", kind, gy, gh)
    if form == "module":
        side.backward("act", "ReLU", gh, gz)
    side.backward("fc1", kind, gh if form == "built-in" else gz, gz @ w1.T)
    side.optimizer("SGD" if framework != "mindspore" else "Momentum", **SGD[framework])
    optimizer = "SGD" if framework != "mindspore" else "Momentum"
    for path, weight, gradient in (("fc1", w1, gz.T @ x), ("fc2", w2, gy.T @ h)):
        value = np.ascontiguousarray(weight.T - np.float32(0.1) * gradient)
        side.parameter(path, kind, names, gradient, value, optimizer)
    return side
