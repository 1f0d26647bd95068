"""What `jumar profile` costs: a step without it, with its hooks alone, and in its trace.

    python benchmarks/profiling.py [--rounds N] [--json FILE]

Two models on one thread: many tiny operators (16 layers of 64, a batch of 4) and few large ones (3 layers of 1024, a
batch of 256), AdamW. Times are processor time of the program's own thread, so that a busy machine disturbs them little;
the host is sampled on another thread. Each round takes a run without Jumar and one of each kind with it, in turn. A
figure is the median over the rounds of the median step, with the range of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
from pathlib import Path
from time import thread_time
from typing import Any

import torch
from torch import nn

import jumar

NUM_STEPS = 24
SIZES = {"small steps": (16, 64, 4), "large steps": (3, 1024, 256)}
KINDS: dict[str, dict[str, Any] | None] = {
    "without": None,
    "hooks": {"schedule": (10**6, 0, 1)},
    "no shapes": {"shapes": False},
    "shapes": {},
    "stacks": {"stacks": True},
    "memory": {"memory": True},
}
"""What is measured, and its options of `jumar.profile`; the trace holds all steps but the first ones."""
WARM_UP = 4


def steps(layers: int, width: int, batch: int) -> list[float]:
    """Train and return the processor's milliseconds of each step after the first ones."""
    torch.manual_seed(0)
    model = nn.Sequential(*(layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.ReLU())))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    inputs, times = torch.randn(batch, width), []
    for _ in range(NUM_STEPS):
        begin = thread_time()
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        times.append((thread_time() - begin) * 1e3)
    return times[WARM_UP : NUM_STEPS - 1]  # the last one may write the trace


def median_step(size: tuple[int, int, int], options: dict[str, Any] | None) -> float:
    if options is None:
        return statistics.median(steps(*size))
    with tempfile.TemporaryDirectory() as folder:
        chosen = {"schedule": (1, 1, NUM_STEPS), **options}
        with jumar.profile(Path(folder) / "profile", **chosen):
            return statistics.median(steps(*size))


def measured(size: tuple[int, int, int], rounds: int) -> dict[str, dict[str, float]]:
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind, options in KINDS.items():
            found[kind].append(median_step(size, options))
    plain = statistics.median(found["without"])
    return {
        kind: {
            "median_ms": round(statistics.median(values), 3),
            "least_ms": round(min(values), 3),
            "most_ms": round(max(values), 3),
            "ratio": round(statistics.median(values) / plain, 3),
        }
        for kind, values in found.items()
    }


def table(figures: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return the table of the guide."""
    lines = ["| step | median, ms | range of rounds, ms | ratio |", "|---|---|---|---|"]
    for size, kinds in figures.items():
        for kind, row in kinds.items():
            text = f"{row['least_ms']:.2f} to {row['most_ms']:.2f}"
            lines.append(f"| {size}, {kind} | {row['median_ms']:.2f} | {text} | {row['ratio']:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    figures = {name: measured(size, options.rounds) for name, size in SIZES.items()}
    print(table(figures))
    if options.json:
        about = {
            "torch": str(torch.__version__),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "load": round(os.getloadavg()[0], 1),
            "rounds": options.rounds,
        }
        options.json.write_text(json.dumps({**about, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
