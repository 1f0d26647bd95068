"""The back end while graphs are collected: each is written with real values, and the module runs as it is.

Nothing is compiled for a run that is not measured.
"""

from __future__ import annotations

from dataclasses import replace

from jumar.tune.backend.capture import constant_arguments, take
from jumar.tune.backend.collect import Collector, Origin, Phase
from jumar.tune.backend.compilation import Compilation, Compiled, reason_of
from jumar.tune.backend.training import take_step


def collect(compilation: Compilation, collector: Collector) -> Compiled:
    """Return the module itself, having written its graph: for inference, or its training step."""
    phase: Phase = "inference" if compilation.is_inference else "training"
    name = compilation.name if compilation.is_inference else f"{compilation.name}, training step"
    origin = Origin(name=name, phase=phase)
    try:
        if compilation.is_inference:
            weights = constant_arguments(compilation.module, compilation.arguments)
            taken = take(compilation.module, compilation.arguments, weights)
            graph, tensors = taken.graph, taken.tensors
        else:
            step = take_step(compilation)
            graph, tensors, origin = step.graph, step.tensors, replace(origin, keeps_layout=step.keeps_layout)
    except Exception as error:  # noqa: BLE001 - whatever the reason, the graph is not tuned, and the model runs
        collector.leave_out(name, reason_of(error))
    else:
        collector.write(graph, tensors, origin)
    run: Compiled = compilation.module.forward
    return run
