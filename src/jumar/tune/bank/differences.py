"""In which properties a task or graph that is asked for differs from one in the bank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from jumar.findings import Json
from jumar.tune.graph import Graph, Node
from jumar.tune.machine import Machine
from jumar.tune.work import Work


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
        *_between(asked, in_bank),
        *_between(_texts(asdict(machine)), _texts(asdict(known_machine))),
    ]


def _between(asked: Mapping[str, str], in_bank: Mapping[str, str]) -> Iterator[Difference]:
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
