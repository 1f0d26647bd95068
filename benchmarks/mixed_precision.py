"""Losses of 200 steps in float32 and under O1 and O2 of `jumar.amp`, with the same batches and the same first weights.

    python benchmarks/mixed_precision.py [--steps N] [--json FILE] [--plot FILE.svg]

A ResNet-18 for small pictures (8x8, a quarter of the usual width, SGD with momentum, batches of 64) tells 10 patterns
under noise, a fifth of the labels being random. A GPT (2 layers, width 64, context 32, batches of 16, AdamW) learns
sequences in which a symbol follows from the two before it, nine times in ten. Learning rates fall linearly.

What is compared is the mean loss of the last 20 steps; `apart` is its distance from float32, relative. `seeds` repeats
float32 from other first weights: how far apart runs end that differ in nothing but chance. This is the second setting
tried. In the first one (weaker patterns, batches of 32, a constant rate of 0.05) ResNet-18 had not converged: O1 ended
9.4 % and O2 4.2 % from float32, two other seeds of float32 3.2 and 6.1 %. O1 and O2 have one seed each. On the CPU the
16-bit type is bfloat16; no time is measured here.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from jumar import amp
from jumar.amp.state import STATE

LAST = 20
WAYS = ("fp32", "O1", "O2")
COLOURS = {"fp32": "#333333", "O1": "#1f77b4", "O2": "#d9480f"}
Batch = tuple[torch.Tensor, torch.Tensor]


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        around = before != width or stride != 1
        self.down: nn.Module = (
            nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
            if around
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + self.down(x))


def resnet18() -> nn.Module:
    widths = [16, 16, 16, 32, 32, 64, 64, 128, 128]
    strides = [1, 1, 2, 1, 2, 1, 2, 1]
    blocks = [Block(a, b, stride) for a, b, stride in zip(widths, widths[1:], strides, strict=False)]
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def pictures() -> Iterator[Batch]:
    generator = torch.Generator().manual_seed(11)
    patterns = torch.randn(10, 3, 8, 8, generator=generator)
    while True:
        target = torch.randint(0, 10, (64,), generator=generator)
        inputs = patterns[target] + torch.randn(64, 3, 8, 8, generator=generator)
        is_random = torch.rand(64, generator=generator) < 0.2
        yield inputs, torch.where(is_random, torch.randint(0, 10, (64,), generator=generator), target)


class Layer(nn.Module):
    """Attention to what came before, and a feed-forward network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size, length, width = x.shape
        q, k, v = (part.view(size, length, 4, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(size, length, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """A small GPT."""

    def __init__(self, symbols: int = 16, width: int = 64, length: int = 32) -> None:
        super().__init__()
        self.symbol, self.place = nn.Embedding(symbols, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(Layer(width), Layer(width))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.norm(self.layers(self.symbol(ids) + self.place.weight)))
        return logits.transpose(1, 2)


def sentences() -> Iterator[Batch]:
    generator = torch.Generator().manual_seed(12)
    follows = torch.randint(0, 16, (16, 16), generator=generator)
    while True:
        ids = torch.randint(0, 16, (16, 33), generator=generator)
        for place in range(2, 33):
            known = torch.rand(16, generator=generator) < 0.9
            ids[:, place] = torch.where(known, follows[ids[:, place - 2], ids[:, place - 1]], ids[:, place])
        yield ids[:, :-1], ids[:, 1:]


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Iterator[Batch]], Callable[..., Any]]] = {
    "ResNet-18": (resnet18, pictures, lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=1e-4)),
    "GPT": (Gpt, sentences, lambda p: torch.optim.AdamW(p, lr=3e-3)),
}


def losses(name: str, way: str, num_steps: int, seed: int = 0) -> list[float]:
    """Train a model one way; return the loss of each step."""
    make, data, optimize = MODELS[name]
    torch.manual_seed(seed)
    model = make()
    optimizer = optimize(model.parameters())
    level = "O0" if way == "fp32" else way
    model, optimizer = amp.initialize(model, optimizer, opt_level=level, combine_grad=way != "fp32", verbosity=0)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, num_steps)
    found = []
    for _, (inputs, target) in zip(range(num_steps), data(), strict=False):
        loss = functional.cross_entropy(model(inputs).float(), target)
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        scheduler.step()
        found.append(loss.item())
    STATE.stop_casts()
    return found


def smooth(values: list[float]) -> list[float]:
    """Return means over the last 10 steps."""
    return [sum(values[max(0, i - 9) : i + 1]) / len(values[max(0, i - 9) : i + 1]) for i in range(len(values))]


def plot(curves: dict[str, dict[str, list[float]]]) -> str:
    """Return an SVG with one chart a model: the loss over the steps, means over 10 steps."""
    width, height, parts = 380, 240, []
    for number, (name, ways) in enumerate(curves.items()):
        left = 50 + number * (width + 70)
        greatest = max(max(smooth(values)) for values in ways.values()) * 1.05
        parts.append(f'<text x="{left + width / 2}" y="24" text-anchor="middle" font-weight="bold">{name}</text>')
        for tick in range(5):
            value = greatest * tick / 4
            y = 40 + height * (1 - tick / 4)
            parts.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#ddd"/>')
            parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.1f}</text>')
        for place, (way, values) in enumerate(ways.items()):
            points = " ".join(
                f"{left + width * i / (len(values) - 1):.1f},{40 + height * (1 - value / greatest):.1f}"
                for i, value in enumerate(smooth(values))
            )
            dash = ["", ' stroke-dasharray="6 3"', ' stroke-dasharray="2 3"'][place]
            line = f'fill="none" stroke="{COLOURS[way]}" stroke-width="2"{dash}'
            parts.append(f'<polyline points="{points}" {line}/>')
            x, y = left + width - 150, 58 + 18 * place
            final = sum(values[-LAST:]) / LAST
            parts.append(f'<path d="M{x} {y - 4}h26" {line}/><text x="{x + 32}" y="{y}">{way}: {final:.4f}</text>')
        steps = len(next(iter(ways.values())))
        parts.append(f'<text x="{left}" y="{height + 58}">0</text>')
        parts.append(f'<text x="{left + width}" y="{height + 58}" text-anchor="end">{steps} steps</text>')
    total = len(curves) * (width + 70) + 10
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height + 72}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)  # beside other work, several threads wait for each other
    results: dict[str, Any] = {}
    curves: dict[str, dict[str, list[float]]] = {}
    for name in MODELS:
        curves[name] = {way: losses(name, way, options.steps) for way in WAYS}
        final = {way: sum(values[-LAST:]) / LAST for way, values in curves[name].items()}
        others = [sum(losses(name, "fp32", options.steps, seed)[-LAST:]) / LAST for seed in (1, 2)]
        results[name] = {
            "first_loss": curves[name]["fp32"][0],
            "final_loss": final,
            "apart": {way: abs(final[way] / final["fp32"] - 1) for way in WAYS[1:]},
            "seeds": [abs(other / final["fp32"] - 1) for other in others],
        }
        print(name, json.dumps(results[name], indent=1), flush=True)
    if options.plot:
        options.plot.write_text(plot(curves), "utf-8")
    if options.json:
        about = {"torch": torch.__version__, "machine": platform.processor() or platform.machine()}
        about |= {"steps": options.steps, "half_type": "bfloat16", "last_steps": LAST}
        options.json.write_text(json.dumps({"about": about, "models": results}, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
