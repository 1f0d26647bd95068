"""PyTorch with each operator under its own policies: what tuning operators one by one found, in one graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.base.findings import Json
from jumar.tune.engines.base import Engine, GraphFunction, Precision, Settings, Site
from jumar.tune.graph import Graph, Node
from jumar.tune.graph.graph import GETITEM
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Function, Stack, Task, in_order, stack_from_json, stack_to_json

if TYPE_CHECKING:
    import torch
    from torch import fx

NAME = "operators"


class Operators(Engine):
    """The setting `stacks` holds the policies of operators by the keys of their tasks; all others run in eager.

    On the CPU nothing is offered for a search: which policies there are, the tuning of operators says (`settings_of`).
    On an NPU they are known beforehand: weights in its formats, fused attention.
    """

    name = NAME
    devices = frozenset({"cpu", "npu"})

    def version(self) -> str:
        """Return PyTorch's; policies through other packages name the versions of those."""
        return version("torch")

    def settings(self, graph: Graph, machine: Machine, precision: Precision = "fp32") -> Sequence[Settings]:
        """Offer each provider's first policy for all operators that it has one for, then those of all providers."""
        if machine.device != "npu" or precision != "fp32" or graph.gradients:
            return []
        by_provider = _offered(graph, machine)
        found = [settings_of(stacks) for stacks in by_provider.values()]
        return [*found, settings_of(_joined(by_provider.values()))] if len(found) > 1 else found

    def fitted(self, settings: Settings, graph: Graph, other: Graph) -> Settings:
        """Give each operator of `other` the policies of its counterpart: sizes are part of the keys of tasks."""
        stacks = stacks_of(settings)
        found = {
            other_key: stacks[key]
            for key, other_key in zip(_keys(graph), _keys(other), strict=True)
            if key in stacks and other_key
        }
        return {**settings, **settings_of(found)}

    def build(self, site: Site, settings: Settings) -> GraphFunction:
        """Apply the policies to each operator that has some. Raises TuneError as providers do."""
        from jumar.tune.engines.shared.borders import with_weights
        from jumar.tune.graph.fx import to_fx

        stacks = stacks_of(settings)
        module = to_fx(site.graph)
        values = [node for node in module.graph.nodes if node.op in {"placeholder", "call_function"}]
        for number, node in enumerate(site.graph.nodes):
            place = len(site.graph.inputs) + number
            if stacks and place not in site.graph.effects:
                _replace(site, node, values, values[place], stacks)
        run: GraphFunction = with_weights(module, site.graph, site.constants).forward
        return run

    def load(self, site: Site, settings: Settings) -> GraphFunction:
        """As `build`; what compilers made is in their caches."""
        return self.build(site, settings)


def settings_of(stacks: Mapping[str, Stack]) -> dict[str, Json]:
    """Return the settings that apply these stacks, by the keys of their tasks."""
    return {"stacks": {key: stack_to_json(stack) for key, stack in sorted(stacks.items()) if stack}}


def stacks_of(settings: Settings) -> dict[str, Stack]:
    """Return the stacks that settings hold, by the keys of their tasks."""
    data: Any = settings.get("stacks", {})
    return {key: stack_from_json(stack) for key, stack in data.items()}


def _offered(graph: Graph, machine: Machine) -> dict[str, dict[str, Stack]]:
    """Return the first policies of each provider that is for NPUs alone: its name to tasks' keys to stacks."""
    from jumar.tune.graph.operators import task_of_node
    from jumar.tune.providers import providers_on

    found: dict[str, dict[str, Stack]] = {}
    providers = [one for one in providers_on(machine) if one.devices == {machine.device}]
    for node in graph.nodes:
        if node.operator == GETITEM:
            continue
        try:
            task = task_of_node(graph, node)
        except TuneError:  # it takes a list of tensors
            continue
        for provider in providers:
            for policy in provider.candidates(task, machine)[:1]:
                found.setdefault(provider.name, {})[task.key] = (policy,)
    return found


def _keys(graph: Graph) -> list[str]:
    """Return the key of each node's task; empty for what is no task."""
    from jumar.tune.graph.operators import task_of_node

    found = []
    for node in graph.nodes:
        try:
            found.append("" if node.operator == GETITEM else task_of_node(graph, node).key)
        except TuneError:  # it takes a list of tensors
            found.append("")
    return found


def _joined(all_stacks: Iterable[Mapping[str, Stack]]) -> dict[str, Stack]:
    joined: dict[str, Stack] = {}
    for stacks in all_stacks:
        for key, stack in stacks.items():
            joined[key] = in_order([*joined.get(key, ()), *stack])
    return joined


def _replace(site: Site, node: Node, values: Sequence[fx.Node], call: fx.Node, stacks: Mapping[str, Stack]) -> None:
    """Make `call` compute `node` under the policies of its task, if there are any; `values` make the graph's values."""
    from jumar.tune.graph.operators import named_values, task_of_node

    if node.operator == GETITEM:
        return
    try:
        task = task_of_node(site.graph, node)
    except TuneError:  # it takes a list of tensors: it is no task, and has no policy
        return
    stack = stacks.get(task.key)
    if stack is None:
        return
    known = named_values(node)
    read = [known[name] for name in task.tensors]
    weights = {place: site.constants[value] for place, value in enumerate(read) if value in site.constants}
    call.target = _under_policies(task, weights, stack, site, site.folder / call.name)
    call.args = tuple(values[value] for place, value in enumerate(read) if place not in weights)
    call.kwargs = {}


def _under_policies(
    task: Task, weights: Mapping[int, torch.Tensor], stack: Stack, site: Site, folder: Path
) -> Function:
    import torch

    from jumar.tune.graph.inputs import make_inputs
    from jumar.tune.graph.operators import function_of, graph_of
    from jumar.tune.providers import PROVIDERS, apply_stack

    folder.mkdir(parents=True, exist_ok=True)
    example = site.placed(make_inputs(task, 0))
    plain = function_of(task, weights)
    with torch.no_grad():
        made = plain(*example)
    graph = graph_of(task, [made] if isinstance(made, torch.Tensor) else list(made))
    own = Site(graph=graph, constants=weights, example=example, folder=folder, num_threads=site.num_threads)
    return apply_stack(stack, plain, own, PROVIDERS)
