"""Optimizers over flat buffers against those of PyTorch: the time of a step, as interleaved ratios.

    python benchmarks/optimizers.py [--sets small,mixed] [--optimizers AdamW,Lamb] [--rounds 15] [--json FILE]
        [--guide docs/flat-optimizers.md]

Sets of parameters: 300 tensors of 16 elements; 150 of 64 and 150 of 64 x 64; ResNet-50's 161; a GPT of 124 million
parameters. Contenders: PyTorch's loop (`foreach=False`), foreach and fused, where they exist. For RMSpropTF, Lamb,
AdamP and BertAdam, which PyTorch lacks, the loop is the published formula in plain operators, a parameter at a time.

`step` is `optimizer.step()` after `zero_grad()` and autograd's writing of the gradients; `whole` is all three. Each
round times every contender once, in turn; a ratio is the median over rounds of PyTorch's fastest contender (by its
median) over the flat one, with the quartiles as spread.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from optimizers_plain import PLAIN
from torch.optim import Optimizer

from jumar.amp import optimizers as flat

OPTIONS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 1e-4, "momentum": 0.9}, "Adam": {}, "AdamW": {}, "Adadelta": {}, "RMSprop": {"momentum": 0.9},
    "RMSpropTF": {"momentum": 0.9}, "Lamb": {"weight_decay": 0.01}, "AdamP": {"weight_decay": 0.01},
    "BertAdam": {"lr": 1e-4},
}  # fmt: skip
START, END = "<!-- measured: benchmarks/optimizers.py -->", "<!-- end of measured -->"
FUSED = ("SGD", "Adam", "AdamW")


def resnet50() -> list[tuple[int, ...]]:
    """Return the shapes of ResNet-50's parameters."""
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            for out, into, kernel in ((width, channels, 1), (width, width, 3), (4 * width, width, 1)):
                shapes += [(out, into, kernel, kernel), (out,), (out,)]
            if block == 0:
                shapes += [(4 * width, channels, 1, 1), (4 * width,), (4 * width,)]
            channels = 4 * width
    return [*shapes, (1000, 2048), (1000,)]


def gpt(width: int = 768, layers: int = 12, words: int = 50257, length: int = 1024) -> list[tuple[int, ...]]:
    """Return the shapes of a GPT's parameters, those of GPT-2's smallest by default."""
    layer = [(width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,), (width,), (width,)]
    layer += [(4 * width, width), (4 * width,), (width, 4 * width), (width,)]
    return [(words, width), (length, width), *(layer * layers), (width,), (width,)]


SETS: dict[str, Callable[[], list[tuple[int, ...]]]] = {
    "small": lambda: [(16,)] * 300,
    "mixed": lambda: [(64,), (64, 64)] * 150,
    "resnet50": resnet50,
    "gpt": gpt,
}


def contenders(name: str, shapes: Sequence[tuple[int, ...]], device: str) -> dict[str, tuple[Optimizer, list[Any]]]:
    """Return each contender's optimizer and parameters, all with the same values and gradients."""
    makers: dict[str, Callable[[list[Any]], Optimizer]] = {}
    options = OPTIONS[name]
    if name in PLAIN:
        makers["loop"] = lambda parameters: PLAIN[name](parameters, **options)
    else:
        plain = getattr(torch.optim, name)
        makers["loop"] = lambda parameters: plain(parameters, **options, foreach=False)
        makers["foreach"] = lambda parameters: plain(parameters, **options, foreach=True)
        if name in FUSED:
            makers["fused"] = lambda parameters: plain(parameters, **options, fused=True)
    makers["flat"] = lambda parameters: getattr(flat, name)(parameters, **options)
    generator = torch.Generator().manual_seed(0)
    values = [torch.randn(shape, generator=generator).to(device) * 0.1 for shape in shapes]
    found = {}
    for kind, make in makers.items():
        parameters = [value.clone().requires_grad_() for value in values]
        found[kind] = (make(parameters), parameters)
    return found


def prepare(optimizer: Optimizer, parameters: Sequence[Any], gradients: Sequence[Any]) -> None:
    """Clear the gradients and let autograd write new ones."""
    optimizer.zero_grad()
    torch.autograd.backward(parameters, gradients)


def measured(name: str, set_name: str, rounds: int, device: str) -> dict[str, Any]:
    """Return the times in ms and the ratios of one optimizer on one set."""
    found = contenders(name, SETS[set_name](), device)
    generator = torch.Generator().manual_seed(1)
    shapes = SETS[set_name]()
    gradients = [torch.randn(shape, generator=generator).to(device) * 0.01 for shape in shapes]
    row: dict[str, Any] = {"optimizer": name, "set": set_name, "num_tensors": len(shapes)}
    row["num_elements"] = sum(gradient.numel() for gradient in gradients)
    for what in ("step", "whole"):
        row[what] = ratios(found, gradients, what, rounds, device)
    return row


def ratios(found: dict[str, Any], gradients: Sequence[Any], what: str, rounds: int, device: str) -> dict[str, Any]:
    """Time each contender in turn; return medians in ms and the ratio of the fastest other one to the flat one."""

    def once(kind: str, repeats: int) -> float:
        optimizer, parameters = found[kind]
        total = 0.0
        for _ in range(repeats):
            if what == "step":
                prepare(optimizer, parameters, gradients)
            synchronize(device)
            began = time.perf_counter()
            if what == "whole":
                prepare(optimizer, parameters, gradients)
            optimizer.step()
            synchronize(device)
            total += time.perf_counter() - began
        return total / repeats

    repeats = {kind: min(20, max(1, int(0.02 / max(once(kind, 1), once(kind, 2))))) for kind in found}
    times: dict[str, list[float]] = {kind: [] for kind in found}
    gc.disable()
    for _ in range(rounds):
        for kind in found:
            times[kind].append(once(kind, repeats[kind]))
    gc.enable()
    medians = {kind: statistics.median(values) for kind, values in times.items()}
    fastest = min((kind for kind in found if kind != "flat"), key=medians.__getitem__)
    own = [other / flat_ for other, flat_ in zip(times[fastest], times["flat"], strict=True)]
    low, middle, high = statistics.quantiles(own, n=4)
    return {
        "ms": {kind: 1e3 * value for kind, value in medians.items()}, "fastest_other": fastest, "ratio": middle,
        "quartiles": [low, high],
    }  # fmt: skip


def write_table(page: Path, found: dict[str, Any]) -> None:
    """Write the table of the measured rows between the marks of a page."""
    lines = ["| set | optimizer | PyTorch's fastest, ms | flat, ms | step | whole |", "|---" * 6 + "|"]
    for row in found["rows"]:
        step_, whole_ = row["step"], row["whole"]
        other = f"{step_['ms'][step_['fastest_other']]:.3g} ({step_['fastest_other']})"
        spread = " | ".join(
            f"×{one['ratio']:.2f} [{one['quartiles'][0]:.2f}, {one['quartiles'][1]:.2f}]" for one in (step_, whole_)
        )
        lines.append(f"| {row['set']} | {row['optimizer']} | {other} | {step_['ms']['flat']:.3g} | {spread} |")
    name = f"{found['machine']} ({found['capability']}), {found['num_threads']} thread"
    lines += ["", f"{name}, PyTorch {found['torch']}, {found['date']}, load {found['load']:.1f}."]
    before, _, rest = page.read_text("utf-8").partition(START)
    page.write_text("\n".join([before + START, *lines, END]) + rest.partition(END)[2], "utf-8")


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def machine(device: str) -> dict[str, Any]:
    name = torch.cuda.get_device_name() if device == "cuda" else _processor()
    return {
        "machine": name, "device": device, "num_threads": torch.get_num_threads(), "torch": torch.__version__,
        "python": platform.python_version(), "capability": torch.backends.cpu.get_cpu_capability(),
        "date": time.strftime("%Y-%m-%d"), "load": os.getloadavg()[0],
    }  # fmt: skip


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--optimizers", default=",".join(OPTIONS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--guide", type=Path, help="a page whose table is written anew from --json's file")
    given = parser.parse_args()
    if given.guide:
        write_table(given.guide, json.loads(given.json.read_text("utf-8")))
        return
    torch.set_num_threads(given.threads)
    rows = []
    for set_name in given.sets.split(","):
        for name in given.optimizers.split(","):
            row = measured(name, set_name, given.rounds, given.device)
            rows.append(row)
            for what in ("step", "whole"):
                one = row[what]
                times = "  ".join(f"{kind} {value:.3f}" for kind, value in one["ms"].items())
                low, high = one["quartiles"]
                print(f"{set_name:9}{name:10}{what:6}{times}  x{one['ratio']:.2f} [{low:.2f}, {high:.2f}]", flush=True)
            gc.collect()
    if given.json:
        given.json.write_text(json.dumps({**machine(given.device), "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
