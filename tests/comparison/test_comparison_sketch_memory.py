"""Comparing takes memory for one step and for slices of its tensors, however long or big the recordings are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jumar.recording import CallRow, RecordingWriter, RunEnd, RunInfo, TensorRow, Values

CHILD = """
import resource, sys
from jumar.comparison import compare
import jumar.recording.row_reader, jumar.recording.tensors.stored, pyarrow.parquet
compare(sys.argv[1], sys.argv[2])
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = compare(sys.argv[3], sys.argv[4])
assert found.status == "agree", found.headline
assert found.evidence == sys.argv[5], found.evidence
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)
"""


def extra_mb(small: tuple[Path, Path], big: tuple[Path, Path], evidence: str) -> float:
    """Return by how much a comparison raises the peak of a process that has compared something small before."""
    command = [sys.executable, "-c", CHILD, *map(str, (*small, *big)), evidence]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout) / 1024


def tensor(name: str, size: int, storage: int) -> TensorRow:
    return TensorRow(
        name=name,
        shape=(size,),
        dtype="float32",
        device="cpu",
        stride=(1,),
        storage_offset=0,
        contiguous=True,
        storage=storage,
        minimum=1.0,
        maximum=1.0,
        mean=1.0,
        l2=float(np.sqrt(size)),
        num_nan=0,
        num_inf=0,
    )


def written(folder: Path, values: Values, *, num_steps: int, num_rows: int, size: int) -> Path:
    writer = RecordingWriter(folder, RunInfo(device="cpu", values=values))
    for step in range(num_steps):
        rows = [
            CallRow(
                step=step,
                rank=0,
                seq=seq,
                kind="op",
                phase="forward",
                module_path=f"layer.{seq % 20}",
                module_type="Layer",
                name="aten::neg",
                occurrence=seq // 20,
                inputs=(tensor("input.0", size, seq + 1),),
                outputs=(tensor("output.0", size, seq + 2),),
            )
            for seq in range(num_rows)
        ]
        arrays = {row.key: {"output.0": np.ones(size, np.float32)} for row in rows} if values == "tensors" else {}
        writer.write_step(step, rows, arrays)
    writer.close(RunEnd(rank=0, status="finished", num_steps=num_steps))
    return folder


def pair(tmp_path: Path, name: str, values: Values, **size: int) -> tuple[Path, Path]:
    first, second = (written(tmp_path / f"{name}-{side}", values, **size) for side in "ab")
    return first, second


def test_a_tensor_is_compared_in_slices(tmp_path: Path) -> None:
    small = pair(tmp_path, "small", "tensors", num_steps=1, num_rows=2, size=1000)
    big = pair(tmp_path, "big", "tensors", num_steps=1, num_rows=1, size=32_000_000)
    assert extra_mb(small, big, "tensors") < 64  # of 2 x 128 MB


@pytest.mark.slow
def test_a_recording_of_ten_times_the_steps_takes_no_more_memory(tmp_path: Path) -> None:
    short = pair(tmp_path, "short", "stats", num_steps=3, num_rows=1000, size=10)
    long = pair(tmp_path, "long", "stats", num_steps=30, num_rows=1000, size=10)
    assert extra_mb(short, long, "statistics") < 24
