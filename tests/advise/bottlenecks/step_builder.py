"""Writes small recordings by hand: tensors with real strides and storages, operators in order."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jumar.advise.bottlenecks import Advice, advise
from jumar.recording import CallRow, RecordingWriter, RunEnd, RunInfo, TensorRow
from jumar.recording.schema import Phase


def contiguous_stride(shape: Sequence[int]) -> tuple[int, ...]:
    stride, size = [], 1
    for dimension in reversed(shape):
        stride.append(size)
        size *= dimension
    return tuple(reversed(stride))


@dataclass(frozen=True)
class FakeSupport:
    status: str
    source: str = "a test"
    certain: bool = True


class FakeTables:
    """Tables in which all operators are native but those named."""

    def __init__(self, statuses: Mapping[str, str]) -> None:
        self._statuses = statuses

    def operator(self, name: str) -> FakeSupport:
        return FakeSupport(self._statuses.get(name, "native"))


class StepBuilder:
    """One step: call `op` in order; each call returns its (first) output to be used by the next."""

    def __init__(self, step: int = 0, device: str = "npu:0") -> None:
        self.step = step
        self.device = device
        self.rows: list[CallRow] = []
        self.clock_us = 0.0
        self._storages = itertools.count(1)
        self._occurrences: dict[tuple[str, str, str], int] = {}

    def tensor(
        self, *shape: int, dtype: str = "float32", device: str | None = None, stride: tuple[int, ...] | None = None
    ) -> TensorRow:
        own = contiguous_stride(shape)
        return TensorRow(
            name="",
            shape=shape,
            dtype=dtype,
            device=device or self.device,
            stride=stride or own,
            storage_offset=0,
            contiguous=stride in (None, own),
            storage=next(self._storages),
        )

    def view(self, tensor: TensorRow, shape: Sequence[int], stride: Sequence[int], offset: int = 0) -> TensorRow:
        shape, stride = tuple(shape), tuple(stride)
        return replace(
            tensor, shape=shape, stride=stride, storage_offset=offset, contiguous=stride == contiguous_stride(shape)
        )

    def op(
        self,
        name: str,
        inputs: Sequence[TensorRow | Sequence[TensorRow]] = (),
        output: TensorRow | Sequence[TensorRow] | None = None,
        *,
        module: str = "",
        module_type: str = "",
        phase: Phase = "forward",
        source: str = "train.py:1",
        duration_us: float = 10.0,
        arguments: Mapping[str, object] | None = None,
    ) -> TensorRow:
        outputs = [] if output is None else [output] if isinstance(output, TensorRow) else list(output)
        site = (module, phase, name)
        number = self._occurrences.get(site, 0)
        self._occurrences[site] = number + 1
        row = CallRow(
            step=self.step,
            rank=0,
            seq=len(self.rows),
            kind="op",
            phase=phase,
            module_path=module,
            module_type=module_type or ("Block" if module else ""),
            name=name,
            occurrence=number,
            source=source,
            arguments=json.dumps(dict(arguments or {})),
            start_us=self.clock_us,
            duration_us=duration_us,
            inputs=tuple(_named(inputs, "input")),
            outputs=tuple(_named(outputs, "output")),
        )
        self.rows.append(row)
        self.clock_us += duration_us
        return outputs[0] if outputs else TensorRow(
            name="", shape=(), dtype="float32", device="cpu", stride=(), storage_offset=0, contiguous=True
        )  # fmt: skip

    def wait(self, duration_us: float) -> None:
        self.clock_us += duration_us


def _named(tensors: Sequence[TensorRow | Sequence[TensorRow]], prefix: str) -> list[TensorRow]:
    named = []
    for number, item in enumerate(tensors):
        if isinstance(item, TensorRow):
            named.append(replace(item, name=f"{prefix}.{number}"))
        else:
            named += [replace(tensor, name=f"{prefix}.{number}.{place}") for place, tensor in enumerate(item)]
    return named


def write_recording(path: Path, steps: Sequence[StepBuilder], *, device: str = "npu (emulated)", soc: str = "") -> Path:
    info = RunInfo(device=device, soc=soc or "Ascend910B1", torch_version="2.13.0", command=("train.py",))
    writer = RecordingWriter(path, info)
    for step in steps:
        writer.write_step(step.step, step.rows)
    writer.close(RunEnd(rank=0, status="finished", num_steps=len(steps)))
    return path


def advise_steps(
    path: Path,
    steps: Sequence[StepBuilder],
    *,
    device: str = "npu (emulated)",
    soc: str = "",
    statuses: Mapping[str, str] | None = None,
) -> Advice:
    recording = write_recording(path / "recording", steps, device=device, soc=soc)
    return advise(recording, load_support=lambda _soc, _version: FakeTables(statuses or {}))


def of(advice: Advice, code: str) -> list:
    return [finding for finding in advice.findings if finding.code == code]


def reasons(advice: Advice, code: str) -> list[str]:
    return [item.reason for item in advice.not_checked if item.code == code]
