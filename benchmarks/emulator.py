"""What the emulated NPU costs over the CPU: per operator, and per training step.

    python benchmarks/emulator.py [--quick] [--json FILE]

CPU and npu are measured in turn within one process, so that a busy or throttled machine slows both
alike; each figure is a median with the median absolute deviation of its rounds. The cost of an
operator is the slope of the time over the number of operators, tiny tensors, minus the CPU's slope.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

DEVICES = ("cpu", "npu")


class Block(nn.Module):
    """The residual block of ResNet-18 (He et al., 2015)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + self.shortcut(x))


def resnet18(num_classes: int = 1000) -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    width = 64
    for number, outputs in enumerate((64, 128, 256, 512)):
        layers += [Block(width, outputs, 2 if number else 1), Block(outputs, outputs, 1)]
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, num_classes))


class Layer(nn.Module):
    """A pre-norm transformer layer."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(*heads.unbind(0), is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, num_layers: int = 4, width: int = 256, vocabulary: int = 1024, length: int = 128) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, 8) for _ in range(num_layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def image_step(device: str, batch: int) -> Callable[[], None]:
    torch.manual_seed(0)
    model = resnet18().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    images, labels = torch.randn(batch, 3, 64, 64).to(device), torch.randint(0, 1000, (batch,)).to(device)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def text_step(device: str, batch: int = 4) -> Callable[[], None]:
    torch.manual_seed(0)
    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    ids = torch.randint(0, 1024, (batch, 129)).to(device)

    def step() -> None:
        optimizer.zero_grad()
        logits = model(ids[:, :-1])
        functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()

    return step


OPERATORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "x + x": lambda x: x + x,
    "x * 2": lambda x: x * 2.0,
    "x.add_(x)": lambda x: x.add_(0.0),
    "torch.relu(x)": torch.relu,
    "x.sum()": lambda x: x.sum(),
    "x @ x": lambda x: x @ x,
    "x.view(-1)": lambda x: x.view(-1),
    "x[1]": lambda x: x[1],
    "torch.empty(4)": lambda x: torch.empty(4, device=x.device),
    "cat([x, x])": lambda x: torch.cat([x, x]),
    "softmax(x)": lambda x: torch.softmax(x, -1),
}


def spread(values: list[float]) -> float:
    """Median absolute deviation."""
    middle = statistics.median(values)
    return statistics.median([abs(value - middle) for value in values])


def seconds(function: Callable[..., Any], *args: Any) -> float:
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


def repeat(function: Callable[[torch.Tensor], Any], x: torch.Tensor, count: int) -> None:
    for _ in range(count):
        function(x)


def slope_us(function: Callable[[torch.Tensor], Any], x: torch.Tensor, count: int) -> float:
    """Microseconds an operator: the slope between `count` and 3 * `count` calls."""
    return (seconds(repeat, function, x, 3 * count) - seconds(repeat, function, x, count)) / (2 * count) * 1e6


def measure_operators(rounds: int, count: int) -> dict[str, Any]:
    inputs = {device: torch.ones(4, 4, device=device) for device in DEVICES}
    found = {}
    for name, function in OPERATORS.items():
        for x in inputs.values():
            repeat(function, x, 50)
        samples: dict[str, list[float]] = {device: [] for device in DEVICES}
        with torch.no_grad():
            for _ in range(rounds):
                for device in DEVICES:
                    samples[device].append(slope_us(function, inputs[device], count))
        differences = [npu - cpu for npu, cpu in zip(samples["npu"], samples["cpu"], strict=True)]
        found[name] = {
            "cpu_us": statistics.median(samples["cpu"]),
            "npu_us": statistics.median(samples["npu"]),
            "overhead_us": statistics.median(differences),
            "spread_us": spread(differences),
        }
    return found


def measure_steps(name: str, make: Callable[[str], Callable[[], None]], rounds: int) -> dict[str, Any]:
    steps = {device: make(device) for device in DEVICES}
    for step in steps.values():
        step()
        step()
    samples: dict[str, list[float]] = {device: [] for device in DEVICES}
    for _ in range(rounds):
        for device in DEVICES:
            samples[device].append(seconds(steps[device]))
    ratios = [npu / cpu for npu, cpu in zip(samples["npu"], samples["cpu"], strict=True)]
    return {
        "name": name,
        "cpu_ms": statistics.median(samples["cpu"]) * 1e3,
        "npu_ms": statistics.median(samples["npu"]) * 1e3,
        "ratio": statistics.median(ratios),
        "spread": spread(ratios),
        "num_rounds": rounds,
    }


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the rounds")
    parser.add_argument("--json", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    from jumar.device import DevicePlan, activate

    started = time.perf_counter()
    activate(DevicePlan(real="never"))
    bring_up_s = time.perf_counter() - started
    share = 5 if options.quick else 1
    steps = [
        measure_steps("ResNet-18, batch 8, 64x64", lambda device: image_step(device, 8), 30 // share),
        measure_steps("ResNet-18, batch 32, 64x64", lambda device: image_step(device, 32), 15 // share),
        measure_steps("GPT, 4 layers, width 256, 4 x 128 tokens", text_step, 30 // share),
    ]
    operators = measure_operators(15 // share, 2000 // share)
    middle = statistics.median(item["overhead_us"] for item in operators.values())
    result = {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": cpu_model(),
        "num_threads": torch.get_num_threads(),
        "quick": options.quick,
        "bring_up_s": bring_up_s,
        "median_overhead_us": middle,
        "operators": operators,
        "steps": steps,
    }
    options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"torch {torch.__version__}, {result['cpu']}, {torch.get_num_threads()} threads, {result['date']}")
    print(f"{'operator':<20}{'cpu us':>10}{'npu us':>10}{'overhead us':>14}{'spread':>9}")
    for name, item in operators.items():
        print(
            f"{name:<20}{item['cpu_us']:>10.1f}{item['npu_us']:>10.1f}"
            f"{item['overhead_us']:>14.1f}{item['spread_us']:>9.1f}"
        )
    print(f"{'median':<20}{'':>20}{middle:>14.1f}")
    for item in steps:
        print(
            f"{item['name']:<42} cpu {item['cpu_ms']:8.1f} ms  npu {item['npu_ms']:8.1f} ms  "
            f"ratio {item['ratio']:.3f} (spread {item['spread']:.3f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
