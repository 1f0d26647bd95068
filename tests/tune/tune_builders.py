"""Small tasks, machines, recordings and outcomes for the tests of tuning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from jumar.recording import CallRow, RecordingWriter, RunEnd, RunInfo, TensorRow
from jumar.tune.measure.worker.messages import Effort, Outcome
from jumar.tune.model.gate import Gain, gain_of
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Task, TensorSpec, contiguous_stride

MACHINE = Machine(device="cpu", model="a test", capability="NONE", num_threads=2, torch="2.13.0", compiler="")
ONE_THREAD = replace(MACHINE, num_threads=1)
"""Operators of several threads cannot be measured while other tests use the cores."""
QUICK = Effort(seconds=0.05, min_pairs=25, max_pairs=31, sample_us=20.0, max_wait_share=1e9)
"""Short samples, and without regard to what else runs on the machine of the tests."""


def needs_openvino() -> None:
    """Skip a test where OpenVINO is not installed. Importing it to find out would let it report that it was."""
    if find_spec("openvino") is None:
        pytest.skip("OpenVINO is not installed")


def spec(*shape: int, dtype: str = "float32", stride: tuple[int, ...] | None = None, **scale: float) -> TensorSpec:
    return TensorSpec(shape=shape, dtype=dtype, stride=stride or contiguous_stride(shape), **scale)


def mm_task(size: int = 4) -> Task:
    return Task(operator="aten::mm", tensors={"self": spec(size, 8), "mat2": spec(8, size)}, arguments={})


def pool_task(image: int = 48, kernel: int = 17) -> Task:
    """Averages over large windows: ATen adds kernel² numbers for each, two passes add 2·kernel."""
    return Task(
        operator="aten::avg_pool2d",
        tensors={"self": spec(1, 1, image, image)},
        arguments={
            "kernel_size": [kernel, kernel],
            "stride": [1, 1],
            "padding": [kernel // 2, kernel // 2],
            "ceil_mode": False,
            "count_include_pad": True,
            "divisor_override": None,
        },
    )


def tensor(name: str, *shape: int, **fields: Any) -> TensorRow:
    known: dict[str, Any] = {
        "name": name, "shape": shape, "dtype": "float32", "device": "cpu", "stride": contiguous_stride(shape),
        "storage_offset": 0, "contiguous": True,
    }  # fmt: skip
    return TensorRow(**(known | fields))


def call(
    name: str,
    inputs: Sequence[TensorRow],
    arguments: Mapping[str, Any] | None = None,
    *,
    module: str = "",
    duration_us: float = 10.0,
    **fields: Any,
) -> CallRow:
    known: dict[str, Any] = {
        "step": 0, "rank": 0, "seq": 0, "kind": "op", "phase": "forward", "module_type": "", "occurrence": 0,
    }  # fmt: skip
    return CallRow(
        **(known | fields),
        name=name,
        inputs=tuple(inputs),
        arguments=json.dumps(dict(arguments)) if arguments else "",
        module_path=module,
        duration_us=duration_us,
    )


def pool_row(module: str = "pool", **fields: Any) -> CallRow:
    arguments = {name: value for name, value in pool_task().arguments.items() if name != "divisor_override"}
    return call("aten::avg_pool2d", [tensor("input.0", 1, 1, 48, 48)], arguments, module=module, **fields)


def mm_row(size: int = 4, module: str = "fc", **fields: Any) -> CallRow:
    return call("aten::mm", [tensor("input.0", size, 8), tensor("input.1", 8, size)], module=module, **fields)


def write_recording(path: Path, steps: Sequence[Sequence[CallRow]], **info: Any) -> Path:
    writer = RecordingWriter(path, RunInfo(**({"device": "cpu", "torch_version": "2.13.0"} | info)))
    for step, rows in enumerate(steps):
        numbered = [replace(row, step=step, seq=seq, occurrence=seq) for seq, row in enumerate(rows)]
        writer.write_step(step, numbered)
    writer.close(RunEnd(rank=0, status="finished", num_steps=len(steps)))
    return path


def gain(ratio: float, spread: float = 0.001, num_pairs: int = 20) -> Gain:
    """A measurement of about this ratio, the pairs `spread` apart from each other."""
    after = [100.0] * num_pairs
    before = [100.0 * ratio * (1 + spread * (pair - num_pairs / 2) / num_pairs) for pair in range(num_pairs)]
    return gain_of(before, after)


def measured(ratio: float, spread: float = 0.001) -> Outcome:
    return Outcome(status="measured", phase="measure", gain=gain(ratio, spread), worst_error=0.0, allowed_error=1e-6)
