"""How much memory and time `jumar export checkpoint` takes for checkpoints that are larger than they should be.

    python benchmarks/checkpoints.py [--gigabytes 4] [--folder /tmp] [--write]

Makes a checkpoint of many tensors, exports it in a process of its own, and compares the greatest resident memory with
that of the same process before the export. `--write` replaces checkpoints.json beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

LARGEST = 256 << 20
"""Bytes of the largest tensor: the embedding table."""
PEAK = """
def peak():
    # Not getrusage: its greatest memory is handed on by the parent through exec.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
"""
EXPORT = """
import sys, time
from pathlib import Path
import torch
from jumar.export import CheckpointOptions, export_checkpoint
import jumar.export.checkpoint
idle = peak()
begin = time.perf_counter()
export_checkpoint(Path(sys.argv[1]), Path(sys.argv[2]), CheckpointOptions(dtype=sys.argv[3] or None))
print(idle, peak(), time.perf_counter() - begin)
"""
WHOLE = """
import sys, time
import torch
idle = peak()
begin = time.perf_counter()
state = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
torch.save({key: value.cpu() for key, value in state["model"].items()}, sys.argv[2])
print(idle, peak(), time.perf_counter() - begin)
"""


def state_dict(gigabytes: float) -> dict[str, torch.Tensor]:
    """Return tensors of `gigabytes` · 10⁹ bytes: an embedding, matrices of 16 MiB and their biases."""
    state = {"embedding.weight": torch.rand(LARGEST // 4096, 1024)}
    left = int(gigabytes * 1e9) - LARGEST
    number = 0
    while left > 0:
        state[f"layers.{number}.weight"] = torch.rand(4096, 1024)
        state[f"layers.{number}.bias"] = torch.rand(4096)
        left -= (4096 * 1024 + 4096) * 4
        number += 1
    return state


def measured(code: str, *arguments: str) -> dict[str, float]:
    """Run a program and return its memory over that before the work, in bytes, and its seconds."""
    done = subprocess.run([sys.executable, "-c", PEAK + code, *arguments], capture_output=True, text=True, check=True)
    idle, peak, seconds = map(float, done.stdout.split())
    return {"idle_bytes": idle, "peak_bytes": peak, "over_bytes": peak - idle, "seconds": round(seconds, 2)}


def main() -> None:
    """Measure and print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        state = state_dict(given.gigabytes)
        num_tensors, size = len(state), sum(tensor.nbytes for tensor in state.values())
        torch.save({"model": state, "epoch": 3}, folder / "in.pth")
        del state
        jobs = [
            ("pth to safetensors", "in.pth", "out.safetensors", ""),
            ("safetensors to pth", "out.safetensors", "back.pth", ""),
            ("pth to pth in bf16", "in.pth", "half.pth", "bf16"),
            ("pth to MindSpore", "in.pth", "out.ckpt", ""),
            ("pth to h5", "in.pth", "out.h5", ""),
        ]
        for label, source, output, dtype in jobs:
            rows[label] = measured(EXPORT, str(folder / source), str(folder / output), dtype)
            print(label, rows[label], flush=True)
            if output != "out.safetensors":
                (folder / output).unlink()
        rows["torch.load and torch.save"] = measured(WHOLE, str(folder / "in.pth"), str(folder / "whole.pth"))
        print("torch.load and torch.save", rows["torch.load and torch.save"], flush=True)
    result = {
        "size_bytes": size,
        "num_tensors": num_tensors,
        "largest_bytes": LARGEST,
        "over_by_largest": {label: round(row["over_bytes"] / LARGEST, 3) for label, row in rows.items()},
        "rows": rows,
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "date": time.strftime("%Y-%m-%d"),
    }
    print(json.dumps(result["over_by_largest"], indent=2))
    if given.write:
        Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
