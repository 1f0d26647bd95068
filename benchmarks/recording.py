"""What recording costs a training step: CPU time of the whole process, against the step without recording.

    python benchmarks/recording.py [--quick] [--json FILE]

The model is a GPT of 6 layers, width 256, 4 heads, vocabulary 4096 on 4x128 tokens with AdamW and an
explicit causal mask, one thread. All modes run in turn within each round, so that a busy or
throttled machine slows them alike; a figure is the median over the rounds, a ratio the median of
the ratios within the rounds. Writing the steps to disk is included.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from jumar.capture import record
from jumar.recording import Recording

MODES: dict[str, dict[str, Any] | None] = {
    "off": None,
    "values none": {"values": "none"},
    "values stats, modules": {"values": "stats", "levels": ("module",)},
    "values stats": {"values": "stats"},
    "values tensors": {"values": "tensors"},
}


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


def measure(options: dict[str, Any] | None, num_steps: int) -> dict[str, float]:
    """Return CPU and wall milliseconds a step, and what a step left on the disk."""
    step = training_step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording"
        with record(path, **options) if options is not None else nullcontext() as session:
            step()
            if session is not None:
                session.flush()
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(num_steps):
                step()
            if session is not None:
                session.flush()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        found = {"cpu_ms": cpu / num_steps * 1e3, "wall_ms": wall / num_steps * 1e3}
        if options is not None:
            recording = Recording.open(path)
            found["rows"] = recording.num_rows(recording.steps()[-1])
            files = [file for file in path.rglob("step-*") if file.is_file()]
            found["mb"] = sum(file.stat().st_size for file in files) / len(recording.steps()) / 1e6
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a look, no figures to quote")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # as `jumar record` does before it starts the script
    num_rounds, num_steps = (2, 2) if options.quick else (7, 4)
    rounds: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for number in range(num_rounds + 1):
        print(f"round {number} of {num_rounds} (0 warms up)", file=sys.stderr)
        for mode, settings in MODES.items():
            found = measure(settings, num_steps)
            if number:
                rounds[mode].append(found)
    figures = {}
    print(f"{'mode':24}{'CPU ms':>10}{'ratio':>8}{'rows':>8}{'MB':>9}")
    for mode, found in rounds.items():
        ratios = [mine["cpu_ms"] / base["cpu_ms"] for mine, base in zip(found, rounds["off"], strict=True)]
        figures[mode] = {name: statistics.median(item[name] for item in found) for name in found[0]}
        figures[mode]["ratio"] = statistics.median(ratios)
        row = figures[mode]
        print(f"{mode:24}{row['cpu_ms']:10.1f}{row['ratio']:8.2f}{row.get('rows', 0):8.0f}{row.get('mb', 0):9.2f}")
    if options.json:
        about = {"torch": str(torch.__version__), "python": platform.python_version(), "machine": platform.machine()}
        options.json.write_text(json.dumps({**about, "rounds": num_rounds, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
