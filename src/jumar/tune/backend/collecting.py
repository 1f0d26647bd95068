"""The back end while graphs are collected: each is written with real values, and runs operator by operator.

Nothing is compiled for a run that is not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from jumar.tune.backend.capture import constant_arguments, take
from jumar.tune.backend.collect import Collector, Origin
from jumar.tune.backend.compilation import Compilation, Compiled, reason_of
from jumar.tune.backend.training import Lowered, Phase, lower, phase_of
from jumar.tune.errors import TuneError


def collect(compilation: Compilation, collector: Collector) -> Compiled:
    """Return a compiled form that computes what the module does, and writes its graphs."""
    if compilation.is_inference:
        return _inference(compilation, collector)
    return compilation.with_inner(_inner(compilation.name, collector))


def _inference(compilation: Compilation, collector: Collector) -> Compiled:
    try:
        weights = constant_arguments(compilation.module, compilation.arguments)
        taken = take(compilation.module, compilation.arguments, weights)
    except Exception as error:  # noqa: BLE001 - whatever the reason, the graph is not tuned, and the model runs
        collector.leave_out(compilation.name, reason_of(error))
    else:
        origin = Origin(name=compilation.name, phase="inference")
        collector.write(taken.graph, taken.tensors, origin)
    run: Compiled = compilation.module.forward
    return run


def _inner(name: str, collector: Collector) -> Callable[..., Any]:
    """Return an inner compiler that writes. The backward is compiled after its forward, whose key names the step."""
    step = ""

    def inner(module: fx.GraphModule, _example_inputs: Sequence[Any], **settings: Any) -> Any:
        nonlocal step
        phase = phase_of(settings)
        try:
            lowered = lower(module)
        except TuneError as error:
            collector.leave_out(f"{name}, {phase}", reason_of(error))
            return _Watched(module)
        if phase == "forward":
            step = lowered.graph.key
        of_step = step
        return _Watched(module, lambda inputs: _write(lowered, inputs, collector, name, phase, of_step))

    return inner


def _write(lowered: Lowered, inputs: Sequence[Any], collector: Collector, name: str, phase: Phase, step: str) -> None:
    graph = lowered.graph
    given = {lowered.input_names[number]: place for place, number in enumerate(lowered.arguments)}
    origin = Origin(name=f"{name}, {phase}", phase=phase, step=step, inputs=list(given), outputs=lowered.made_names())
    collector.write(graph, dict(enumerate(lowered.variables(inputs))), origin)


class _Watched:
    """A graph as it is; the inputs of its first call are handed to `keep`, before the graph may write to them."""

    def __init__(self, module: fx.GraphModule, keep: Callable[[Sequence[Any]], None] | None = None) -> None:
        self._boxed_call = True  # of the instance: torch.compiler.disable copies its dictionary only
        self._module = module
        self._keep = keep

    def __call__(self, inputs: list[Any]) -> Any:
        """Run the graph. The list is emptied, as AOTAutograd wants it."""
        keep, self._keep = self._keep, None
        if keep is not None:
            keep(inputs)
        given = list(inputs)
        inputs.clear()
        with torch._C._DisableAutocast():
            return self._module(*given)
