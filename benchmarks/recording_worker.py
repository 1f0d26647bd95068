"""The modes of `recording.py`, each in a process of its own that takes a step when it is told to.

    python recording_worker.py MODE

Prints a line of JSON once it has warmed up, one for each line that it reads (the CPU and wall milliseconds of a
step, and the CPU milliseconds that were spent since the step before), and one with what the last step left on the
disk when there are no more lines.
"""

from __future__ import annotations

import gc
import json
import math
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

Step = Callable[[], float]
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
OFF = "off"


class Mode:
    """A training step in one mode: `step` takes one, `after` returns what the last of `num_steps` left on the disk."""

    def __init__(self, step: Step, after: Callable[[int], Figures] | None = None) -> None:
        self.step = step
        self.after = after or (lambda _: {})


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


def training_step() -> Step:
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


@contextmanager
def recorded(options: dict[str, Any]) -> Iterator[Mode]:
    """Give the step as it is recorded; it returns once what was recorded of it is on the disk."""
    from jumar.capture import record
    from jumar.recording import Recording

    with tempfile.TemporaryDirectory() as folder, record(path := Path(folder) / "recording", **options) as session:
        step = training_step()

        def flushed() -> float:
            loss = step()
            session.flush()
            return loss

        def after(num_steps: int) -> Figures:
            recording, last = Recording.open(path), f"step-{num_steps - 1:06d}-"
            found = {
                "rows": float(len(recording.rows(recording.steps()[-1]))),
                "mb": sum(file.stat().st_size for file in path.rglob(f"{last}*") if file.is_file()) / 1e6,
            }
            if options["values"] == "tensors":
                found["raw_mb"] = raw_bytes(path / "tensors" / f"{last}rank-0.h5") / 1e6
            return found

        yield Mode(flushed, after)


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


@contextmanager
def debug_mode(mode: str) -> Iterator[Mode]:
    """Give the step under PyTorch's DebugMode, which keeps its log in memory; a new one for each step."""
    from torch.utils._debug_mode import DebugMode

    step = training_step()

    def debugged() -> float:
        hashes = DebugMode.log_tensor_hashes(hash_fn="norm") if mode.endswith("norm") else nullcontext()
        with DebugMode(), hashes:
            return step()

    yield Mode(debugged)


@contextmanager
def msprobe(task: str) -> Iterator[Mode]:
    """Give the step under msprobe at level L1, as its manual has it: start, the step, stop, step."""
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

        yield Mode(debugged)


@contextmanager
def off() -> Iterator[Mode]:
    """Give the step as it is."""
    yield Mode(training_step())


def opened(name: str) -> Any:
    """Return the context that gives the mode of that name."""
    if name in RECORDED:
        return recorded(RECORDED[name])
    if name in DEBUG_MODES:
        return debug_mode(name)
    return msprobe(MSPROBE_MODES[name]) if name in MSPROBE_MODES else off()


def rest() -> None:
    """Let the collector pass over what is there, as `jumar record` does before it starts the script."""
    gc.collect()
    gc.freeze()


def say(figures: Figures) -> None:
    print("FIGURES" + json.dumps(figures), flush=True)


def main(name: str) -> None:
    torch.set_num_threads(1)
    rest()
    with opened(name) as mode:
        num_steps = 3
        for _ in range(num_steps):
            mode.step()
        say({})
        spent = time.process_time()
        for _ in sys.stdin:
            wall = time.perf_counter()
            mode.step()
            now = time.process_time()
            say({"cpu_ms": (now - spent) * 1e3, "wall_ms": (time.perf_counter() - wall) * 1e3})
            spent = now
            num_steps += 1
        say(mode.after(num_steps))


if __name__ == "__main__":
    main(sys.argv[1])
