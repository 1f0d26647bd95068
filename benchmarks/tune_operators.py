"""Single operators on the CPU: Jumar's kernels, PyTorch eager and OpenVINO, one thread, float32.

CPU time of a call, not time on the clock: on a machine that others use too, the latter says nothing. Usage:
`python benchmarks/tune_operators.py [PART_OF_A_NAME ...]`. Prints a table; OpenVINO is left out where it is missing.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from jumar.tune.engines import Engine, Site
from jumar.tune.engines.kernels.engine import Kernels
from jumar.tune.engines.openvino.engine import OpenVino
from jumar.tune.graph.fx import from_fx
from jumar.tune.model.machine import Machine, this_machine

ROUNDS, CALLS = 30, 3
Calls = Mapping[str, Callable[[], Any]]


def operators() -> Iterator[tuple[str, nn.Module, torch.Tensor]]:
    """Give a name, a module and its input for each operator."""
    for channels, size in ((58, 28), (144, 56), (960, 7)):
        module = nn.Conv2d(channels, channels, 3, 1, 1, groups=channels)
        yield f"depthwise {channels}x{size}x{size}", module, torch.randn(1, channels, size, size)
    for channels, size in ((64, 56), (256, 14)):
        module = nn.Conv2d(channels, channels, 3, 1, 1)
        yield f"conv3x3 {channels}x{size}x{size}", module, torch.randn(1, channels, size, size)
    yield "conv1x1 116x14x14", nn.Conv2d(116, 116, 1), torch.randn(1, 116, 14, 14)
    for rows in (1, 8, 128):
        yield f"linear {rows}x768x3072", nn.Linear(768, 3072), torch.randn(rows, 768)
    yield "gelu tanh 384x3072", nn.GELU(approximate="tanh"), torch.randn(384, 3072)


def site_of(module: nn.Module, x: torch.Tensor, folder: Path) -> Site:
    """Return the module as a graph."""
    program = torch.export.export(module.eval(), (x,))
    specs = program.graph_signature.input_specs
    known: dict[str | None, Any] = {**program.state_dict, **program.constants}
    places = [place for place, spec in enumerate(specs) if spec.target in known]
    graph, held = from_fx(program.graph_module, places)
    weights = {place: known[specs[place].target].detach() for place in places}
    return Site(graph=graph, constants={**weights, **held}, example=[x], folder=folder, num_threads=1)


def built(engine: Engine, module: nn.Module, x: torch.Tensor, folder: Path, machine: Machine) -> Callable[[], Any]:
    """Return a call of what the engine makes of the module with its first settings."""
    folder.mkdir()
    site = site_of(module, x, folder)
    function = engine.build(site, engine.settings(site.graph, machine)[0])
    return lambda: function(x)


def cpu_ms(calls: Calls) -> dict[str, float]:
    """Return the first quartile of the CPU time of each call, measured in turns, in ms."""
    times: dict[str, list[int]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            before = time.process_time_ns()
            for _ in range(CALLS):
                call()
            times[name].append(time.process_time_ns() - before)
    return {name: sorted(taken)[len(taken) // 4] / CALLS / 1e6 for name, taken in times.items()}


def main() -> None:
    """Print one line an operator."""
    torch.set_num_threads(1)
    machine = this_machine(with_compiler=False)
    for name, module, x in operators():
        if len(sys.argv) > 1 and not any(part in name for part in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            calls = {
                "kernels": built(Kernels(), module, x, Path(folder) / "kernels", machine),
                "eager": partial(module, x),
            }
            if importlib.util.find_spec("openvino"):
                calls["openvino"] = built(OpenVino(), module, x, Path(folder) / "openvino", machine)
            print(f"{name:24s}", "  ".join(f"{who} {taken:.4f} ms" for who, taken in cpu_ms(calls).items()), flush=True)


if __name__ == "__main__":
    main()
