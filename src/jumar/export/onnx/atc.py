"""`judge`: which operators of an ONNX file ATC's parser takes, by the table in `export/onnx/data/atc_onnx.json`.

ATC looks a node up under its type and the operator set of the whole file, so a type that is registered for the sets 8
to 18 is refused in a file of set 19, where the standard has not changed it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What the operator packages register. `operators`: domain -> type -> ranges of operator sets."""

    operators: Mapping[str, Mapping[str, tuple[range, ...]]]
    instead: Mapping[str, str]
    """Type -> what to write instead."""
    source: str
    date: str

    def sets_of(self, domain: str, kind: str) -> tuple[range, ...] | None:
        """Return the operator sets for which a type is registered; None for one that is not in the table."""
        return self.operators.get(domain, {}).get(kind)

    @property
    def newest(self) -> int:
        """The newest operator set for which the common types are registered (those of `Relu`)."""
        return self.operators[""]["Relu"][-1][-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Operator types of a file, by what the table says. Keys are `Type`, or `domain::Type` outside ONNX's own."""

    opset: int
    num_nodes: int
    taken: Mapping[str, int]
    not_taken: Mapping[str, tuple[int, str]]
    """Type -> number of nodes, operator sets that it is registered for (`8-18`)."""
    unknown: Mapping[str, int]


@cache
def table() -> Table:
    """Return the table."""
    data = json.loads(files("jumar.export.onnx").joinpath("data/atc_onnx.json").read_text("utf-8"))
    operators = {
        domain: {kind: tuple(_ranges(text)) for kind, text in own.items()} for domain, own in data["operators"].items()
    }
    source = ", ".join(item["url"] for item in data["sources"])
    return Table(operators=operators, instead=data["instead"], source=source, date=data["read"])


def _ranges(text: str) -> Iterator[range]:
    for part in text.split(","):
        first, dash, last = part.partition("-")
        yield range(int(first), (int(last) if last else (1000 if dash else int(first))) + 1)


def judge(model: Any) -> Judgement:
    """Return what the table says of each node of a model, those of inner graphs and functions too."""
    known = table()
    versions = {_domain(item.domain): item.version for item in model.opset_import}
    local = {(_domain(item.domain), item.name) for item in model.functions}
    graphs = [model.graph.node, *(function.node for function in model.functions)]
    counts = Counter(_domain_and_type(node) for nodes in graphs for node in _all_nodes(nodes))
    taken: dict[str, int] = {}
    not_taken: dict[str, tuple[int, str]] = {}
    unknown: dict[str, int] = {}
    for (domain, kind), number in sorted(counts.items()):
        if (domain, kind) in local:
            continue
        name, sets = f"{domain}::{kind}" if domain else kind, known.sets_of(domain, kind)
        if sets is None:
            unknown[name] = number
        elif any(versions.get(domain, 0) in one for one in sets):
            taken[name] = number
        else:
            not_taken[name] = (number, _shown(sets))
    return Judgement(
        opset=versions.get("", 0), num_nodes=sum(counts.values()), taken=taken, not_taken=not_taken, unknown=unknown
    )


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _domain_and_type(node: Any) -> tuple[str, str]:
    return _domain(node.domain), node.op_type


def _all_nodes(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _all_nodes(graph.node)


def _shown(sets: tuple[range, ...]) -> str:
    return ", ".join(f"{one[0]} to {one[-1]}" if len(one) > 1 else str(one[0]) for one in sets)
