"""What comparing costs: time and peak memory over the size of the recordings.

    python benchmarks/compare.py [--quick] [--json FILE]

Recordings are made up here: a chain of additions with rounding-sized noise on the target, as statistics and as
sketches (10,000 operators in one step and over ten steps), as whole tensors (400 MB of distinct tensors a side,
in one step and in four) and as one tensor of 400 MB. Each comparison runs in a process of its own, so that its
peak memory is its own; `cpu` is its processor time, `reading` the time that `Recording` takes for the same rows.
`--msprobe PYTHON` names the Python of an environment with mindstudio-probe and torch, and lets `msprobe compare`
compare two dumps of its own with as many tensors (570 statistics rows; 2 x 400 MB): its figures stand beside.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from jumar.recording import CallRow, RecordingWriter, RunEnd, RunInfo, TensorRow, Values
from jumar.recording.sketch import sketch_of

CHILD = """
import json, resource, sys, time
from jumar.comparison import compare
from jumar.recording import Recording
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start, cpu = time.perf_counter(), time.process_time()
comparison = compare(sys.argv[1], sys.argv[2])
total, cpu = time.perf_counter() - start, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert comparison.status == "agree", comparison.headline
start = time.perf_counter()
for path in sys.argv[1:]:
    for _ in Recording.open(path).iter_rows():
        pass
reading = time.perf_counter() - start
print(json.dumps({"seconds": total, "cpu_seconds": cpu, "reading_seconds": reading, "extra_mb": (peak - base) / 1024}))
"""


def tensor(name: str, values: np.ndarray, storage: int, *, sketched: bool = False) -> TensorRow:
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
        sketch=sketch_of(values) if sketched else None,
    )


def write(
    folder: Path, *, num_steps: int, num_operators: int, shape: tuple[int, ...], values: Values, noise: float
) -> None:
    """Write a recording: additions of one operand, every output read by the next call."""
    generator, wobbles = np.random.default_rng(0), np.random.default_rng(1)
    writer = RecordingWriter(folder, RunInfo(device="cpu", values=values))
    sketched = values == "sketch"
    start = generator.standard_normal(shape).astype(np.float32)
    for step in range(num_steps):
        rows, arrays = [], {}
        hidden, hidden_row = start, tensor("input.0", start, 1, sketched=sketched)
        operand = generator.standard_normal(shape).astype(np.float32)
        operand_row = tensor("input.1", operand, 2, sketched=sketched)
        for seq in range(num_operators):
            wobble = noise * wobbles.standard_normal(shape) if noise else 0.0
            output = (0.5 * hidden + operand + wobble).astype(np.float32)
            row_of_output = tensor("output.0", output, 3 + seq, sketched=sketched)
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
            if values == "tensors":
                arrays[row.key] = {"input.0": hidden, "input.1": operand, "output.0": output}
            hidden, hidden_row = output, replace(row_of_output, name="input.0")
        writer.write_step(step, rows, arrays)
    writer.close(RunEnd(rank=0, status="finished", num_steps=num_steps))


def measure(reference: Path, target: Path, num_rounds: int) -> dict[str, float]:
    """Return the median figures of the comparison in fresh processes."""
    found = []
    for _ in range(num_rounds):
        command = [sys.executable, "-c", CHILD, str(reference), str(target)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found.append(json.loads(done.stdout))
    figures = {name: statistics.median(item[name] for item in found) for name in found[0]}
    seconds = [item["seconds"] for item in found]
    return figures | {"seconds_min": min(seconds), "seconds_max": max(seconds)}


def size_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


DUMP = """
import json, sys, torch
from torch import nn
from torch.nn import functional as F
from msprobe.pytorch import PrecisionDebugger
out, task, num, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
config = out + ".json"
open(config, "w").write(json.dumps({"task": task, "dump_path": out, "rank": [], "step": [], "level": "L1",
    "async_dump": False, task: {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}}))
torch.manual_seed(0)
x = torch.randn(*(16, 16) if task == "statistics" else (1024, 1024))
debugger = PrecisionDebugger(config_path=config)
debugger.start()
for _ in range(num):
    x = 0.5 * x + 1e-8 * seed
debugger.stop()
debugger.step()
"""


def of_msprobe(python: Path, *, quick: bool) -> dict[str, dict[str, float]]:
    """Return the time `msprobe compare` takes for dumps of its own: 570 statistics rows, and 400 MB of tensors."""
    figures = {}
    for task, num in (("statistics", 95), ("tensor", 10 if quick else 34)):
        with tempfile.TemporaryDirectory() as folder:
            dumps = []
            for seed in (0, 1):
                out = Path(folder) / f"dump{seed}"
                subprocess.run(
                    [python, "-c", DUMP, str(out), task, str(num), str(seed)], check=True, capture_output=True
                )
                dumps.append(next(out.rglob("dump.json")))
            (Path(folder) / "result").mkdir()
            command = [python.parent / "msprobe", "compare", "-tp", str(dumps[1]), "-gp", str(dumps[0])]
            start = time.perf_counter()
            subprocess.run([*command, "-o", f"{folder}/result"], check=True, capture_output=True)
            found = {"seconds": time.perf_counter() - start, "mb": size_mb(dumps[0].parent)}
        figures[f"msprobe compare, {task}"] = found
        print(f"{f'msprobe compare, {task}':40}{found['mb']:10.1f}{found['seconds']:9.2f}")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small recordings, one round: a look, no figures to quote")
    parser.add_argument("--msprobe", type=Path, help="Python of an environment with mindstudio-probe and torch")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    part, num_rounds = (10, 1) if options.quick else (1, 5)
    cases: dict[str, tuple[int, int, tuple[int, ...], Values]] = {
        "statistics, 10,000 operators, 1 step": (1, 10_000 // part, (16, 16), "stats"),
        "statistics, 10,000 operators, 10 steps": (10, 1_000 // part, (16, 16), "stats"),
        "sketches, 10,000 operators, 1 step": (1, 10_000 // part, (16, 16), "sketch"),
        "tensors, 400 MB, 1 step": (1, 98 // part, (1024, 1024), "tensors"),
        "tensors, 400 MB, 4 steps": (4, 24 // part, (1024, 1024), "tensors"),
        "one tensor of 400 MB": (1, 1, (33 << 20,) if not options.quick else (1 << 20,), "tensors"),
    }
    figures = {}
    print(f"{'case':40}{'MB a side':>10}{'seconds':>9}{'min':>7}{'max':>7}{'cpu':>7}{'reading':>9}{'extra MB':>10}")
    for name, (num_steps, num_operators, shape, values) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            sides = Path(folder) / "reference", Path(folder) / "target"
            for side, noise in zip(sides, (0.0, 1e-8), strict=True):
                write(side, num_steps=num_steps, num_operators=num_operators, shape=shape, values=values, noise=noise)
            row = measure(*sides, num_rounds) | {"mb": size_mb(sides[0])}
        figures[name] = row
        print(
            f"{name:40}{row['mb']:10.1f}{row['seconds']:9.2f}{row['seconds_min']:7.2f}{row['seconds_max']:7.2f}"
            f"{row['cpu_seconds']:7.2f}{row['reading_seconds']:9.2f}{row['extra_mb']:10.0f}"
        )
    if options.msprobe:
        figures |= of_msprobe(options.msprobe, quick=options.quick)
    if options.json:
        about = {
            "numpy": np.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
        }
        options.json.write_text(json.dumps({**about, "rounds": num_rounds, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
