"""Nearest-shape transfer: what the bank knows of the same computation at other sizes, or on other versions.

A policy holds for what it was measured on and for nothing else. But where a search has nothing yet, the policies
of the nearest neighbour are the best place to start: they are measured first, and the gate decides as always.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from jumar.base.findings import Json
from jumar.tune.bank.entry import Entry, by_task, stack_of
from jumar.tune.graph import Graph, Node
from jumar.tune.graph.graph import Work, distance
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One property in which what was asked for differs from the nearest thing in the bank."""

    name: str
    """`shape of input`, `dilation`, `torch`, `number of aten::relu`, `version of openvino`, …"""
    asked: str
    in_bank: str

    def __str__(self) -> str:
        return f"{self.name} is {self.asked} here and {self.in_bank} in the bank"


def differences(work: Work, machine: Machine, known: Work, known_machine: Machine) -> list[Difference]:
    """Return every property that differs, in the order in which people look at them: inputs, arguments, machine."""
    asked, in_bank = _properties(work, known), _properties(known, work)
    return [
        *_machines_between(asked, in_bank),
        *_machines_between(_texts(asdict(machine)), _texts(asdict(known_machine))),
    ]


def _machines_between(asked: Mapping[str, str], in_bank: Mapping[str, str]) -> Iterator[Difference]:
    for name in dict.fromkeys([*asked, *in_bank]):
        if asked.get(name) != in_bank.get(name):
            yield Difference(name=name, asked=asked.get(name, "absent"), in_bank=in_bank.get(name, "absent"))


def _properties(work: Work, other: Work) -> dict[str, str]:
    """Return every property of the key by name, as far as it can be compared with `other`."""
    if isinstance(work, Graph) and isinstance(other, Graph):
        nodes = _nodes_alike(work) if _operators(work) == _operators(other) else _counts(work)
        return _inputs(work) | nodes
    properties = {
        f"{what} of {name}": _text(value)
        for name, spec in work.tensors.items()
        for what, value in spec.identity().items()
    }
    return {"operator": work.operator} | properties | _texts(work.arguments)


def _inputs(graph: Graph) -> dict[str, str]:
    """Return the properties of the inputs, named by what they are: `input 0`, `weight 3`."""
    found = {}
    for kind, places in (("input", graph.variables), ("weight", graph.constants)):
        for number, place in enumerate(places):
            for what, value in graph.inputs[place].identity().items():
                if what != "constant":
                    found[f"{what} of {kind} {number}"] = _text(value)
    return found


def _operators(graph: Graph) -> list[str]:
    return [node.operator for node in graph.nodes]


def _counts(graph: Graph) -> dict[str, str]:
    """Return how often each operator is there, and the first one, for graphs of other operators."""
    return {f"number of {name}": str(count) for name, count in Counter(_operators(graph)).items()}


def _nodes_alike(graph: Graph) -> dict[str, str]:
    """Return the arguments and the wiring of each operator, for graphs of the same operators."""
    found = {}
    for number, node in enumerate(graph.nodes):
        for name, value in _arguments(node):
            found[f"{name} of operator {number} ({node.operator})"] = _text(value)
    return found | {"outputs": _text(list(graph.outputs)), "written inputs": _text(list(graph.effects))}


def _arguments(node: Node) -> Iterator[tuple[str, Json]]:
    yield from ((f"argument {place}", value) for place, value in enumerate(node.arguments))
    yield from node.keywords.items()


def _texts(values: Mapping[str, Json]) -> dict[str, str]:
    return {name: _text(value) for name, value in values.items()}


def _text(value: Json) -> str:
    return "none" if value is None else str(value) or "none"


_WEIGHTS = {"num_threads": 0.5, "torch": 0.25, "compiler": 0.25, "capability": 1.0, "model": 1.0}
"""What another property of the machine adds to a distance; another device is no neighbour."""
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A task or graph of the bank, of the same structure, with the policies that were measured faster for it."""

    entries: Sequence[Entry]
    distance: float
    differences: Sequence[Difference]
    """What is another than in what was asked for."""

    @property
    def work(self) -> Work:
        """The neighbour itself."""
        return self.entries[0].task

    @property
    def stack(self) -> Stack:
        """Its policies."""
        return stack_of(self.entries)

    def __str__(self) -> str:
        """`aten::mm(float32 4×8, float32 8×4), where shape of self is [4, 8] in place of [16, 8]`."""
        shown = [f"{one.name} is {one.in_bank} in place of {one.asked}" for one in self.differences[:_SHOWN]]
        more = len(self.differences) - len(shown)
        return f"{self.work}, where {', '.join(shown)}" + (f" and {more} more differ" if more else "")


def neighbours(work: Work, machine: Machine, entries: Iterable[Entry], limit: int) -> list[Neighbour]:
    """Return those among `entries`, all of the structure of `work`, that have policies, the nearest first."""
    found = [
        Neighbour(
            entries=group,
            distance=distance(work, group[0].task) + _between(machine, group[0].machine),
            differences=differences(work, machine, group[0].task, group[0].machine),
        )
        for group in by_task(entries)
        if group[0].machine.device == machine.device and stack_of(group)
        if (group[0].task.key, group[0].machine.key) != (work.key, machine.key)
    ]
    return sorted(found, key=lambda one: (one.distance, one.work.key))[:limit]


def _between(one: Machine, other: Machine) -> float:
    return sum(weight for name, weight in _WEIGHTS.items() if getattr(one, name) != getattr(other, name))
