"""What the emulated NPU costs over the CPU: time per operator and per training step, and memory.

    python benchmarks/emulator.py [--quick] [--json FILE]

CPU and npu are measured in turn within one process, so that a busy or throttled machine slows both
alike; each figure is a median with the median absolute deviation of its rounds. Beside the ratio of
wall-clock times stands that of processor times, which other programs on the machine disturb less. The
cost of an operator is the slope of the time over the number of operators, tiny tensors, minus the
CPU's slope. Memory is the greatest resident size of a process of its own that trains two steps. Each
part runs in a process of its own, in exact and in strict numerics.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from emulator_models import Step, gpt_step, resnet18_step, resnet50_step

DEVICES = ("cpu", "npu")
NUMERICS = ("exact", "strict")

STEPS: dict[str, Callable[[str], Step]] = {
    "ResNet-18, batch 8, 64x64": resnet18_step,
    "ResNet-18, batch 32, 64x64": lambda device: resnet18_step(device, 32),
    "GPT, 4 layers, width 256, 4 x 128 tokens": gpt_step,
    "ResNet-50, batch 8, 224x224": lambda device: resnet50_step(device, 8),
    "ResNet-50, batch 32, 224x224": lambda device: resnet50_step(device, 32),
}

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


def seconds(function: Callable[..., Any], *args: Any) -> tuple[float, float]:
    """Return the wall-clock and the processor seconds of a call."""
    start, used = time.perf_counter(), time.process_time()
    function(*args)
    return time.perf_counter() - start, time.process_time() - used


def repeat(function: Callable[[torch.Tensor], Any], x: torch.Tensor, count: int) -> None:
    for _ in range(count):
        function(x)


def slope_us(function: Callable[[torch.Tensor], Any], x: torch.Tensor, count: int) -> float:
    """Processor microseconds an operator: the slope between `count` and 3 * `count` calls."""
    return (seconds(repeat, function, x, 3 * count)[1] - seconds(repeat, function, x, count)[1]) / (2 * count) * 1e6


def bring_up(numerics: str) -> float:
    from jumar.device import DevicePlan, activate

    started = time.perf_counter()
    activate(DevicePlan(real="never", numerics=numerics))  # type: ignore[arg-type]
    return time.perf_counter() - started


def measure_operators(rounds: int, count: int) -> dict[str, Any]:
    bring_up_s = bring_up("strict")
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
    middle = statistics.median(item["overhead_us"] for item in found.values())
    return {"bring_up_s": bring_up_s, "median_overhead_us": middle, "operators": found}


def measure_steps(name: str, numerics: str, rounds: int) -> dict[str, Any]:
    """Train on both devices in turn within this process."""
    bring_up(numerics)
    steps = {device: STEPS[name](device) for device in DEVICES}
    for step in steps.values():
        step()
    samples: dict[str, list[tuple[float, float]]] = {device: [] for device in DEVICES}
    for _ in range(rounds):
        for device in DEVICES:
            samples[device].append(seconds(steps[device]))
    ratios = [[npu[i] / cpu[i] for npu, cpu in zip(samples["npu"], samples["cpu"], strict=True)] for i in (0, 1)]
    return {
        "name": name,
        "numerics": numerics,
        "cpu_ms": statistics.median(wall for wall, _ in samples["cpu"]) * 1e3,
        "npu_ms": statistics.median(wall for wall, _ in samples["npu"]) * 1e3,
        "ratio": statistics.median(ratios[0]),
        "spread": spread(ratios[0]),
        "processor_ratio": statistics.median(ratios[1]),
        "processor_spread": spread(ratios[1]),
        "num_rounds": rounds,
    }


def measure_memory(name: str, device: str, numerics: str) -> dict[str, Any]:
    """Train two steps on one device, and say how large this process became."""
    if device == "npu":
        bring_up(numerics)
    step = STEPS[name](device)
    step()
    step()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"resident_bytes": peak, "device_bytes": torch.npu.max_memory_allocated() if device == "npu" else 0}


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "operators": measure_operators,
    "steps": measure_steps,
    "memory": measure_memory,
}


def child(part: str, *args: Any) -> dict[str, Any]:
    """Run a part in a process of its own and return what it found."""
    command = [sys.executable, __file__, "--part", json.dumps([part, *args]), "--threads", str(torch.get_num_threads())]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def memory_of(name: str, rounds: int) -> list[dict[str, Any]]:
    """Return the memory of a model's training by numerics, the CPU's beside it."""
    found = []
    for numerics in NUMERICS:
        pairs = [
            (child("memory", name, "cpu", numerics), child("memory", name, "npu", numerics)) for _ in range(rounds)
        ]
        ratios = [npu["resident_bytes"] / cpu["resident_bytes"] for cpu, npu in pairs]
        found.append(
            {
                "name": name,
                "numerics": numerics,
                "cpu_bytes": statistics.median(cpu["resident_bytes"] for cpu, _ in pairs),
                "npu_bytes": statistics.median(npu["resident_bytes"] for _, npu in pairs),
                "ratio": statistics.median(ratios),
                "spread": spread(ratios),
                "device_peak_bytes": pairs[0][1]["device_bytes"],
            }
        )
    return found


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def show(result: dict[str, Any]) -> None:
    print(f"torch {result['torch']}, {result['cpu']}, {result['num_threads']} threads, {result['date']}")
    print(f"{'operator':<20}{'cpu us':>10}{'npu us':>10}{'overhead us':>14}{'spread':>9}")
    for name, item in result["operators"].items():
        print(
            f"{name:<20}{item['cpu_us']:>10.1f}{item['npu_us']:>10.1f}"
            f"{item['overhead_us']:>14.1f}{item['spread_us']:>9.1f}"
        )
    print(f"{'median':<20}{'':>20}{result['median_overhead_us']:>14.1f}")
    for item in result["steps"]:
        print(
            f"{item['name']:<42}{item['numerics']:<8}cpu {item['cpu_ms']:9.1f} ms  npu {item['npu_ms']:9.1f} ms  ratio "
            f"{item['ratio']:.3f} (spread {item['spread']:.3f}), processor time {item['processor_ratio']:.3f}"
        )
    for item in result["memory"]:
        print(
            f"{item['name']:<42}{item['numerics']:<8}cpu {item['cpu_bytes'] / 2**20:6.0f} MiB  npu "
            f"{item['npu_bytes'] / 2**20:6.0f} MiB  ratio {item['ratio']:.3f} (spread {item['spread']:.3f})"
        )


def measure(quick: bool) -> dict[str, Any]:
    large = "ResNet-50, batch 8, 224x224" if quick else "ResNet-50, batch 32, 224x224"
    names = [name for name in STEPS if not name.startswith("ResNet-50")]
    operators = child("operators", 3 if quick else 9, 400 if quick else 2000)
    steps = [child("steps", name, numerics, 5 if quick else 9) for name in names for numerics in NUMERICS]
    steps += [child("steps", large, numerics, 1 if quick else 2) for numerics in NUMERICS]
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": cpu_model(),
        "num_threads": torch.get_num_threads(),
        "load_average": os.getloadavg()[1],
        "quick": quick,
        **operators,
        "steps": steps,
        "memory": memory_of(large, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and ResNet-50 at batch 8")
    parser.add_argument("--json", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads of parallel kernels")
    parser.add_argument("--part", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.part:
        part, *args = options.part
        print(json.dumps(PARTS[part](*args)))
        return 0
    result = measure(options.quick)
    options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
