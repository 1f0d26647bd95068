"""What recording costs a training step: CPU time of the whole process, against the step without recording.

    python benchmarks/recording.py [--quick] [--modes off,stats,...] [--msprobe PYTHON] [--json FILE]

The model is a GPT of 6 layers, width 256, 4 heads, vocabulary 4096 on 4x128 tokens with AdamW and an
explicit causal mask, one thread. All modes run in turn within each round, so that a busy or throttled
machine slows them alike; a figure is the median over the rounds, a ratio the median of the ratios within
the rounds, with the least and the greatest beside it. Writing the steps to disk is included. `raw` is the
size of the distinct tensor states that the rows of a step saw, `mb` what a step left on the disk.

PyTorch's DebugMode runs beside, and with `--msprobe` (the Python of an environment with mindstudio-probe and
torch) its L1 levels, in a process of its own and against the step without it there.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Figures = dict[str, float]

RECORDED: dict[str, dict[str, Any]] = {
    "none": {"values": "none"},
    "stats, modules": {"values": "stats", "levels": ("module",)},
    "stats": {"values": "stats"},
    "stats, optimizer": {"values": "stats", "levels": ("module", "op", "optimizer")},
    "sketch": {"values": "sketch"},
    "hash": {"values": "hash"},
    "tensors": {"values": "tensors"},
}
DEBUG_MODES = ("DebugMode", "DebugMode norm")
MSPROBE_MODES = {"msprobe statistics L1": "statistics", "msprobe tensor L1": "tensor"}


class Block(nn.Module):
    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.num_heads, -1).transpose(1, 2)
            for part in self.qkv(self.ln_1(x)).split(width, dim=2)
        )
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        y: torch.Tensor = x + self.fc2(functional.gelu(self.fc1(self.ln_2(x))))
        return y


class GPT(nn.Module):
    def __init__(self, num_layers: int = 6, width: int = 256, num_heads: int = 4, vocabulary: int = 4096) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(128, width)
        self.blocks = nn.ModuleList(Block(width, num_heads) for _ in range(num_layers))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("mask", torch.triu(torch.ones(128, 128, dtype=torch.bool), 1))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, self.mask)
        logits: torch.Tensor = self.head(self.ln(x))
        return logits


def training_step() -> Callable[[], float]:
    torch.manual_seed(0)
    model = GPT()
    updates = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> float:
        tokens = torch.randint(0, 4096, (4, 129))
        loss = functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        updates.zero_grad()
        loss.backward()
        updates.step()
        return loss.item()

    return step


def timed(step: Callable[[], float], num_steps: int, after: Callable[[], None] = lambda: None) -> Figures:
    """Return CPU and wall milliseconds a step, after one step that warms up."""
    step()
    after()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(num_steps):
        step()
    after()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"cpu_ms": cpu / num_steps * 1e3, "wall_ms": wall / num_steps * 1e3}


def measure_recording(options: dict[str, Any], num_steps: int) -> Figures:
    """Return what a recorded step costs, and what it leaves on the disk."""
    from jumar.capture import record
    from jumar.recording import Recording

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording"
        with record(path, **options) as session:
            found = timed(training_step(), num_steps, session.flush)
        recording = Recording.open(path)
        rows = recording.rows(recording.steps()[-1])
        found["rows"] = len(rows)
        files = [file for file in path.rglob(f"step-{num_steps:06d}-*") if file.is_file()]
        found["mb"] = sum(file.stat().st_size for file in files) / 1e6
        if options["values"] == "tensors":
            found["raw_mb"] = raw_bytes(path / "tensors" / f"step-{num_steps:06d}-rank-0.h5") / 1e6
    return found


def raw_bytes(path: Path) -> int:
    """Return the bytes of the distinct data sets of a tensor file: every tensor state once."""
    import h5py

    sizes: dict[int, int] = {}

    def add(_: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and "view_of" not in item.attrs:
            sizes[h5py.h5o.get_info(item.id).addr] = item.nbytes

    with h5py.File(path) as file:
        file.visititems(add)
    return sum(sizes.values())


def measure_debug_mode(mode: str, num_steps: int) -> Figures:
    """Return what a step costs under PyTorch's DebugMode, which keeps its log in memory; a new one for each step."""
    from torch.utils._debug_mode import DebugMode

    step = training_step()

    def debugged() -> float:
        hashes = DebugMode.log_tensor_hashes(hash_fn="norm") if mode.endswith("norm") else nullcontext()
        with DebugMode(), hashes:
            return step()

    return timed(debugged, num_steps)


@contextmanager
def msprobe_step(task: str) -> Iterator[Callable[[], float]]:
    """Give a step under msprobe at level L1, as its manual has it: start, the step, stop, step."""
    from msprobe.pytorch import PrecisionDebugger

    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(
            json.dumps({"task": task, "dump_path": folder, "rank": [], "step": [], "level": "L1", task: {}})
        )
        debugger = PrecisionDebugger(config_path=str(config))
        step = training_step()

        def debugged() -> float:
            debugger.start()
            loss = step()
            debugger.stop()
            debugger.step()
            return loss

        yield debugged


def measure(mode: str, num_steps: int) -> Figures:
    """Return the figures of one mode."""
    if mode in RECORDED:
        return measure_recording(RECORDED[mode], num_steps)
    if mode in DEBUG_MODES:
        return measure_debug_mode(mode, num_steps)
    if mode in MSPROBE_MODES:
        with msprobe_step(MSPROBE_MODES[mode]) as step:
            return timed(step, num_steps)
    return timed(training_step(), num_steps)


def rounds_of(modes: list[str], num_rounds: int, num_steps: int) -> dict[str, list[Figures]]:
    """Return the figures of every mode, "off" first, in each round after one that warms up."""
    found: dict[str, list[Figures]] = {mode: [] for mode in ("off", *modes)}
    for number in range(num_rounds + 1):
        sys.stderr.write(f"round {number} of {num_rounds} (0 warms up)\n")
        for mode, figures in found.items():
            measured = measure(mode, num_steps)
            os.sync()  # what this mode has written must not be written out at the cost of the next one
            if number:
                figures.append(measured)
    return found


def summary(found: dict[str, list[Figures]]) -> dict[str, Figures]:
    """Return medians over the rounds, and of the ratios within the rounds the least, the median and the greatest."""
    figures = {}
    for mode, measured in found.items():
        ratios = [mine["cpu_ms"] / base["cpu_ms"] for mine, base in zip(measured, found["off"], strict=True)]
        row = {name: statistics.median(item[name] for item in measured) for name in measured[0]}
        figures[mode] = row | {"ratio": statistics.median(ratios), "least": min(ratios), "greatest": max(ratios)}
    return figures


def of_peer(python: str, num_rounds: int, num_steps: int) -> dict[str, Figures]:
    """Return the figures of msprobe in another Python, against the step without it there."""
    code = (
        "import json, sys, torch, recording as r; torch.set_num_threads(1); r.rest();"
        f"print('FIGURES' + json.dumps(r.summary(r.rounds_of({list(MSPROBE_MODES)!r}, {num_rounds}, {num_steps}))))"
    )
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONPATH": str(Path(__file__).parent)}
    out = subprocess.run([python, "-c", code], env=environment, check=True, capture_output=True, text=True).stdout
    figures: dict[str, Figures] = json.loads(out.rpartition("FIGURES")[2].splitlines()[0])
    return {"off, in the peer's Python": figures.pop("off"), **figures}


def rest() -> None:
    """Let the collector pass over what is there, as `jumar record` does before it starts the script."""
    gc.collect()
    gc.freeze()


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    model = next((line for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "")
    return {
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {model.partition(':')[2].strip()}, {os.cpu_count()} cores",
        "load": [round(load, 1) for load in os.getloadavg()],
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text("utf-8").splitlines() if Path(path).exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a look, no figures to quote")
    parser.add_argument("--modes", help="some modes, separated by semicolons")
    parser.add_argument("--msprobe", metavar="PYTHON", help="the Python of an environment with mindstudio-probe")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rest()
    num_rounds, num_steps = (2, 2) if options.quick else (5, 8)
    modes = options.modes.split(";") if options.modes else [*RECORDED, *DEBUG_MODES]
    about = machine()
    figures = summary(rounds_of(modes, num_rounds, num_steps))
    if options.msprobe:
        figures |= of_peer(options.msprobe, num_rounds, num_steps)
    print(f"{'mode':26}{'CPU ms':>9}{'ratio':>7}{'least':>7}{'most':>7}{'rows':>7}{'MB':>9}{'raw MB':>9}")
    for mode, row in figures.items():
        sizes = f"{row.get('rows', 0):7.0f}{row.get('mb', 0):9.2f}{row.get('raw_mb', 0):9.2f}"
        print(f"{mode:26}{row['cpu_ms']:9.1f}{row['ratio']:7.2f}{row['least']:7.2f}{row['greatest']:7.2f}{sizes}")
    if options.json:
        about["load at the end"] = [round(load, 1) for load in os.getloadavg()]
        options.json.write_text(json.dumps({**about, "rounds": num_rounds, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
