"""What `torch.compile(..., backend="jumar")` calls with each graph that TorchDynamo captured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import fx

from jumar.base.process.collector import collector_at_rest
from jumar.tune.backend.capture import constant_arguments, take
from jumar.tune.backend.collect import Collector, Origin, Phase
from jumar.tune.backend.compilation import Compilation, Compiled, inductor_settings, outside, reason_of
from jumar.tune.backend.gears import Prepare, by_size, for_all_sizes, sizes_vary, with_floats_fixed
from jumar.tune.backend.inference import Ready, tuned
from jumar.tune.backend.knowledge import Knowledge, knowledge
from jumar.tune.graph.graph import Graph
from jumar.tune.model.errors import TuneError
from jumar.tune.model.notes import say, tell


def jumar(
    module: fx.GraphModule,
    arguments: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Compiled:
    """Compile a graph: as the bank says where it knows the graph on this machine, else with TorchInductor.

    `mode` and `options` are those of TorchInductor, and `options={"bank": PLACE}` names another bank than the usual
    one. Without a bank, and for a graph that it does not know, the result is that of `torch.compile` by default.
    """
    chosen = dict(options or {})
    place = chosen.pop("bank", None)
    compilation = Compilation(module=module, arguments=arguments, patches=inductor_settings(mode, chosen))
    collector = Collector.from_environment(os.environ)
    if collector is not None:
        return collect(compilation, collector)
    known = knowledge(compilation.device, place)
    if known is None or not known.keys:
        return compilation.untuned()
    if compilation.is_inference:
        return _inference(compilation, known)
    return _training(compilation, known)


def _inference(compilation: Compilation, known: Knowledge) -> Compiled:
    weights = constant_arguments(compilation.module, compilation.arguments)

    def prepare_of(compilation: Compilation) -> Prepare:
        return lambda arguments: _ready(replace(compilation, arguments=arguments), weights, known)

    if sizes_vary(compilation.module):
        return with_floats_fixed(compilation, lambda fixed: by_size(fixed, prepare_of(fixed)), for_all_sizes)
    prepare = prepare_of(compilation)
    ready = prepare(compilation.arguments)
    if ready is None:
        return compilation.untuned()
    return tuned(ready, compilation.arguments, prepare, compilation.untuned)


@collector_at_rest()
def _ready(compilation: Compilation, weights: set[int], known: Knowledge) -> Ready | None:
    """Return the bank's plan for a graph, with the weights in it; None when it has none or it cannot be built."""
    from jumar.tune.plan.built import Request, function_of

    name = compilation.name
    try:
        taken = take(compilation.module, compilation.arguments, weights)
        plan = known.plan(taken.graph, taken.constants)
        if plan is None:
            tell(f"the bank has no plan for {name} ({taken.graph}, {taken.graph.key[:12]}); it is compiled untuned.")
            return None
        request = Request(
            graph=taken.graph, plan=plan, weights=taken.constants, example=taken.example, machine=known.machine
        )
        with outside():
            function = function_of(request, known.folder)
    except Exception as error:  # noqa: BLE001 - torch.export and engines may raise anything, and the model must run
        say(f"{name} is compiled untuned: {reason_of(error)}")
        return None
    tell(f"{name} is computed as the bank says: {plan}.")
    return function, taken


def _training(compilation: Compilation, known: Knowledge) -> Compiled:
    from jumar.tune.backend.training import applied
    from jumar.tune.plan.built import unusable

    name = f"{compilation.name}, training step,"
    try:
        step = _step(compilation, known)
        plan = known.plan(step)
        if plan is None:
            tell(f"the bank has no plan for {name} {step.key[:12]}; it is compiled untuned.")
            return compilation.untuned()
        if why := unusable(plan, known.machine):
            raise TuneError(why)
        made = applied(compilation, plan)
    except Exception as error:  # noqa: BLE001 - torch.export and engines may raise anything, and the model must run
        say(f"{name} is compiled untuned: {reason_of(error)}")
        return compilation.untuned()
    tell(f"{name} is computed as the bank says: {plan}.")
    return made


@collector_at_rest()
def _step(compilation: Compilation, known: Knowledge) -> Graph:
    """Return a module's training step, which is captured once a bank. Raises TuneError for one that is not tuned."""
    from jumar.tune.backend.training import Seen, source_digest, take_step

    seen = Seen(folder=known.folder / "steps")
    source = source_digest(compilation)
    found = seen.step(source)
    if found is not None:
        return found
    try:
        with outside():
            found = take_step(compilation).graph
    except TuneError as error:
        seen.refuse(source, str(error))
        raise
    seen.keep(source, found)
    return found


def collect(compilation: Compilation, collector: Collector) -> Compiled:
    """Return the module itself, having written its graph: for inference, or its training step."""
    from jumar.tune.backend.training import take_step

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
