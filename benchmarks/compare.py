"""What comparing costs: time and peak memory over the size of the recordings.

    python benchmarks/compare.py [--quick] [--json FILE]

Recordings are made up here: a chain of products and additions with rounding-sized noise on the target,
as statistics (10,000 operators in one step and over ten steps) and as whole tensors (400 MB a side).
Each comparison runs in a process of its own, so that its peak memory is its own; reading alone is the
time that `Recording` takes for the same rows.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from jumar.recording import CallRow, RecordingWriter, RunEnd, RunInfo, TensorRow

CHILD = """
import json, resource, sys, time
from jumar.accuracy import compare
from jumar.recording import Recording
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
comparison = compare(sys.argv[1], sys.argv[2])
total = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert comparison.status == "agree", comparison.headline
start = time.perf_counter()
for path in sys.argv[1:]:
    for _ in Recording.open(path).iter_rows():
        pass
reading = time.perf_counter() - start
print(json.dumps({"seconds": total, "reading_seconds": reading, "extra_mb": (peak - base) / 1024}))
"""


def tensor(name: str, values: np.ndarray, storage: int) -> TensorRow:
    wide = values.astype(np.float64).reshape(-1)
    return TensorRow(
        name=name,
        shape=values.shape,
        dtype="float32",
        device="cpu",
        stride=(),
        storage_offset=0,
        contiguous=True,
        storage=storage,
        minimum=float(wide.min()),
        maximum=float(wide.max()),
        mean=float(wide.mean()),
        l2=float(np.sqrt((wide**2).sum())),
        num_nan=0,
        num_inf=0,
    )


def write(
    folder: Path, *, num_steps: int, num_operators: int, shape: tuple[int, ...], tensors: bool, noise: float
) -> None:
    """Write a recording: additions of one operand, every output read by the next call."""
    generator, wobbles = np.random.default_rng(0), np.random.default_rng(1)
    writer = RecordingWriter(folder, RunInfo(device="cpu", values="tensors" if tensors else "stats"))
    start = generator.standard_normal(shape).astype(np.float32)
    for step in range(num_steps):
        rows, arrays = [], {}
        hidden, hidden_row = start, tensor("input.0", start, 1)
        operand = generator.standard_normal(shape).astype(np.float32)
        operand_row = tensor("input.1", operand, 2)
        for seq in range(num_operators):
            wobble = noise * wobbles.standard_normal(shape) if noise else 0.0
            output = (0.5 * hidden + operand + wobble).astype(np.float32)
            row_of_output = tensor("output.0", output, 3 + seq)
            row = CallRow(
                step=step,
                rank=0,
                seq=seq,
                kind="op",
                phase="forward",
                module_path=f"blocks.{seq // 20}",
                module_type="Block",
                name="aten::add.Tensor",
                occurrence=seq % 20,
                source="model.py:1",
                inputs=(hidden_row, operand_row),
                outputs=(row_of_output,),
            )
            rows.append(row)
            if tensors:
                arrays[row.key] = {"input.0": hidden, "input.1": operand, "output.0": output}
            hidden, hidden_row = output, tensor("input.0", output, 3 + seq)
        writer.write_step(step, rows, arrays)
    writer.close(RunEnd(rank=0, status="finished", num_steps=num_steps))


def measure(reference: Path, target: Path, num_rounds: int) -> dict[str, float]:
    """Return the median figures of the comparison in fresh processes."""
    found = []
    for _ in range(num_rounds):
        command = [sys.executable, "-c", CHILD, str(reference), str(target)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found.append(json.loads(done.stdout))
    return {name: statistics.median(item[name] for item in found) for name in found[0]}


def size_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small recordings, one round: a look, no figures to quote")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    part, num_rounds = (10, 1) if options.quick else (1, 5)
    cases = {
        "statistics, 10,000 operators, 1 step": (1, 10_000 // part, (16, 16), False),
        "statistics, 10,000 operators, 10 steps": (10, 1_000 // part, (16, 16), False),
        "tensors, 400 MB, 1 step": (1, 32 // part or 2, (1024, 1024), True),
        "tensors, 400 MB, 4 steps": (4, 8 // part or 2, (1024, 1024), True),
    }
    figures = {}
    print(f"{'case':42}{'MB a side':>10}{'seconds':>10}{'reading':>10}{'extra MB':>10}")
    for name, (num_steps, num_operators, shape, tensors) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            sides = Path(folder) / "reference", Path(folder) / "target"
            for side, noise in zip(sides, (0.0, 1e-8), strict=True):
                write(side, num_steps=num_steps, num_operators=num_operators, shape=shape, tensors=tensors, noise=noise)
            row = measure(*sides, num_rounds) | {"mb": size_mb(sides[0])}
        figures[name] = row
        print(f"{name:42}{row['mb']:10.1f}{row['seconds']:10.2f}{row['reading_seconds']:10.2f}{row['extra_mb']:10.0f}")
    if options.json:
        about = {"numpy": np.__version__, "python": platform.python_version(), "machine": platform.machine()}
        options.json.write_text(json.dumps({**about, "rounds": num_rounds, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
