"""What the history of a run costs: time and bytes of a step, of which nothing is recorded in detail.

    python benchmarks/recording_history.py [--steps N] [--json FILE]

A GPT (that of `recording.py`) and a ResNet-18 on 16 pictures of 64x64 with SGD, one thread. `own` is the time that the
observer takes on the run's own thread by its clock, `step` that of the run without it; the figures are medians over
the steps. What PyTorch's hooks cost besides is in `recording.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from recording_worker import training_step
from torch import nn
from torch.nn import functional

from jumar.capture import record
from jumar.recording import Recording


class Block(nn.Module):
    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        same = before == width and stride == 1
        self.down = (
            None if same else nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + (x if self.down is None else self.down(x)))


def resnet_step() -> Callable[[], float]:
    torch.manual_seed(0)
    widths = [
        (64, 64, 1),
        (64, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 256, 2),
        (256, 256, 1),
        (256, 512, 2),
        (512, 512, 1),
    ]
    stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    blocks = (Block(*width) for width in widths)
    model = nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    updates = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> float:
        images, labels = torch.randn(16, 3, 64, 64), torch.randint(0, 1000, (16,))
        loss = functional.cross_entropy(model(images), labels)
        updates.zero_grad()
        loss.backward()
        updates.step()
        return loss.item()

    return step


MODELS = {"GPT": training_step, "ResNet-18": resnet_step}


def measured(name: str, num_steps: int) -> dict[str, Any]:
    """Return milliseconds and bytes of a step of a model."""
    own: list[float] = []
    run: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording"
        with record(path, steps=(1 << 30, (1 << 30) + 1)) as session:
            step, clock = MODELS[name](), session.observer.notebook.clock
            for _ in range(num_steps):
                began = clock.own, clock.now()
                step()
                own.append((clock.own - began[0]) / 1e6)
                run.append((clock.now() - began[1]) / 1e6)
        history = Recording.open(path).history()
        assert history is not None
        size = history.path.stat().st_size / num_steps
        places = len(history.read(num_steps - 1).places)
    own_ms, run_ms = statistics.median(own), statistics.median(run)
    return {"places": places, "bytes": round(size), "own_ms": own_ms, "step_ms": run_ms, "share": own_ms / run_ms}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    figures = {name: measured(name, options.steps) for name in MODELS}
    print(f"{'model':12}{'places':>8}{'bytes':>9}{'own ms':>9}{'step ms':>9}{'share':>8}")
    for name, row in figures.items():
        print(f"{name:12}{row['places']:8}{row['bytes']:9}{row['own_ms']:9.2f}{row['step_ms']:9.1f}{row['share']:8.1%}")
    if options.json:
        about = {
            "torch": str(torch.__version__),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "steps": options.steps,
        }
        options.json.write_text(json.dumps({**about, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
