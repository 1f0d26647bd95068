"""What `torch.compile(..., backend="jumar")` calls with each graph that TorchDynamo captured."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from jumar.tune.backend.capture import constant_arguments, take
from jumar.tune.backend.collect import Collector
from jumar.tune.backend.compilation import Compilation, Compiled, inductor_settings, outside, reason_of
from jumar.tune.backend.inference import Ready, tuned
from jumar.tune.backend.knowledge import Knowledge, knowledge
from jumar.tune.backend.notes import say, tell
from jumar.tune.backend.training import Lowered, Phase, Replaced, lower, phase_of
from jumar.tune.errors import TuneError
from jumar.tune.graph import Graph


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
        from jumar.tune.backend.collecting import collect

        return collect(compilation, collector)
    known = knowledge(compilation.device, place)
    if known is None or not known.keys:
        return compilation.untuned()
    if compilation.is_inference:
        return _inference(compilation, known)
    return compilation.with_inner(_lookup(known))


def _inference(compilation: Compilation, known: Knowledge) -> Compiled:
    weights = constant_arguments(compilation.module, compilation.arguments)

    def prepare(arguments: Sequence[Any]) -> Ready | None:
        return _ready(replace(compilation, arguments=arguments), weights, known)

    ready = prepare(compilation.arguments)
    if ready is None:
        return compilation.untuned()
    return tuned(ready, compilation.arguments, prepare, compilation.untuned)


def _ready(compilation: Compilation, weights: set[int], known: Knowledge) -> Ready | None:
    """Return the bank's plan for a graph, with the weights in it; None when it has none or it cannot be built."""
    from jumar.tune.backend.built import Request, function_of

    name = compilation.name
    try:
        taken = take(compilation.module, compilation.arguments, weights)
        plan = known.plan(taken.graph)
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


def _lookup(known: Knowledge) -> Callable[..., Any]:
    """Return an inner compiler that gives graphs the bank knows to their plans."""
    from torch._inductor.compile_fx import compile_fx_inner

    def inner(module: fx.GraphModule, example_inputs: Sequence[Any], **settings: Any) -> Any:
        phase = phase_of(settings)
        lowered = _lowered(module, phase)
        made = _replaced(lowered, phase, known) if lowered is not None else None
        return made if made is not None else compile_fx_inner(module, example_inputs, **settings)

    return inner


def _lowered(module: fx.GraphModule, phase: Phase) -> Lowered | None:
    try:
        return lower(module)
    except TuneError as error:
        say(f"a {phase} graph is compiled untuned: {reason_of(error)}")
        return None


def _replaced(lowered: Lowered, phase: Phase, known: Knowledge) -> Replaced | None:
    """Return the bank's plan for a training graph; None when it has none or it cannot be built."""
    plan = known.plan(lowered.graph)
    if plan is None:
        tell(f"the bank has no plan for a {phase} graph ({lowered.graph}); it is compiled untuned.")
        return None
    from jumar.tune.backend.built import Request, function_of

    example = stand_ins(lowered.graph)
    request = Request(graph=lowered.graph, plan=plan, weights={}, example=example, machine=known.machine)
    try:
        with outside():
            return Replaced(function_of(request, known.folder), lowered)
    except Exception as error:  # noqa: BLE001 - an engine may raise anything, and the model must run
        say(f"a {phase} graph is compiled untuned: {reason_of(error)}")
        return None


def stand_ins(graph: Graph) -> list[torch.Tensor]:
    """Return zeros of the shapes of a graph's variable inputs, for engines that want to see some."""
    made = []
    for spec in (graph.inputs[place] for place in graph.variables):
        last = sum((size - 1) * stride for size, stride in zip(spec.shape, spec.stride, strict=True))
        memory = torch.zeros(max(last, 0) + 1, dtype=getattr(torch, spec.dtype))
        made.append(memory.as_strided(list(spec.shape), list(spec.stride)))
    return made
