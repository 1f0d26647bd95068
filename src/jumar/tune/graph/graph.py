"""A graph of aten operators as plain data, and `Work`, what is tuned: one operator call or a graph of them.

Both have a key, an identity and tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from jumar.base.findings import Json
from jumar.tune.model.task import Task, TensorSpec, digest

Reference = int
"""The number of a value: of an input when less than `len(graph.inputs)`, else of a node."""

OPERATOR = "graph"
"""What stands in the place of a task's operator."""
_NONE: Mapping[int, int] = {}
GETITEM = "getitem"
"""A node that takes one item of an operator's several outputs: arguments are the value and the place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One call of an operator."""

    operator: str
    """Aten overload as in a recording (`aten::add.Tensor`, `aten::relu`), or `getitem`."""
    arguments: Sequence[Json]
    keywords: Mapping[str, Json] = field(default_factory=dict)

    def references(self) -> Iterator[Reference]:
        """Yield the values it reads, in order, again for each time."""
        yield from references([*self.arguments, *self.keywords.values()])

    def renumbered(self, number: Callable[[Reference], Reference]) -> Node:
        """Return the node with every value's number replaced."""
        return self.changed(lambda argument: _renumbered(argument, number))

    def changed(self, change: Callable[[Json], Json]) -> Node:
        """Return the node with every argument as `change` gives it."""
        return Node(
            operator=self.operator,
            arguments=[change(argument) for argument in self.arguments],
            keywords={name: change(argument) for name, argument in self.keywords.items()},
        )

    def to_json(self) -> list[Json]:
        """Return the node as JSON values, short because a model has hundreds."""
        return [self.operator, list(self.arguments), dict(self.keywords)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A function of tensors, free of side effects apart from `effects`; shapes are static.

    Make it with `jumar.tune.graph.fx.from_fx`, which gives the canonical order.
    """

    inputs: Sequence[TensorSpec]
    """Those with `constant` set are weights: the same values in every call."""
    nodes: Sequence[Node]
    outputs: Sequence[Reference | None]
    effects: Sequence[Reference] = field(default_factory=list)
    """Nodes that write to an input (`aten::copy_`), in the order in which they run after all others."""
    gradients: Sequence[Reference] = field(default_factory=list)
    """Of a training step: the inputs whose gradients are further outputs (`jumar.tune.graph.steps`)."""
    values: Sequence[TensorSpec | None] = field(default_factory=list, compare=False)
    """What each node gives, None for several tensors or no tensor. It follows from the rest: no part of the key."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Graph:
        """Rebuild a graph from `to_json`. Raises KeyError, TypeError or ValueError on foreign input."""
        return cls(
            inputs=[TensorSpec.from_json(spec) for spec in data["inputs"]],
            nodes=[Node(operator=name, arguments=rest, keywords=words) for name, rest, words in data["nodes"]],
            outputs=list(data["outputs"]),
            effects=list(data["effects"]),
            gradients=list(data.get("gradients", ())),
            values=[None if spec is None else TensorSpec.from_json(spec) for spec in data["values"]],
        )

    @property
    def operator(self) -> str:
        """`graph`, where a task has its operator's name."""
        return OPERATOR

    @property
    def base(self) -> str:
        """As `Task.base`."""
        return OPERATOR

    @property
    def tensors(self) -> Mapping[str, TensorSpec]:
        """The inputs by name (`input.0`, …), as a task has them."""
        return {f"input.{place}": spec for place, spec in enumerate(self.inputs)}

    @property
    def arguments(self) -> Mapping[str, Json]:
        """None: a graph's arguments are in its nodes."""
        return {}

    @property
    def variables(self) -> list[Reference]:
        """Inputs that change from call to call."""
        return [place for place, spec in enumerate(self.inputs) if not spec.constant]

    @property
    def constants(self) -> list[Reference]:
        """Inputs that are weights."""
        return [place for place, spec in enumerate(self.inputs) if spec.constant]

    @property
    def key(self) -> str:
        """SHA-256 of the canonical JSON of `identity`, in hexadecimal."""
        return digest(self.identity())

    def identity(self) -> dict[str, Json]:
        """Return what makes this graph another than its neighbours."""
        identity: dict[str, Json] = {
            "inputs": [spec.identity() for spec in self.inputs],
            "nodes": [node.to_json() for node in self.nodes],
            "outputs": list(self.outputs),
            "effects": list(self.effects),
        }
        return identity | ({"gradients": list(self.gradients)} if self.gradients else {})

    def to_json(self) -> dict[str, Json]:
        """Return every field as JSON values."""
        values: list[Json] = [None if spec is None else spec.to_json() for spec in self.values]
        return self.identity() | {"inputs": [spec.to_json() for spec in self.inputs], "values": values}

    def spec_of(self, value: Reference) -> TensorSpec | None:
        """Return what is known of a value; None for several tensors or none."""
        if value < len(self.inputs):
            return self.inputs[value]
        return self.values[value - len(self.inputs)]

    def producer(self, value: Reference) -> Node | None:
        """Return the node that makes a value; None for an input."""
        return None if value < len(self.inputs) else self.nodes[value - len(self.inputs)]

    def with_inputs(self, order: Sequence[Reference], same: Mapping[Reference, Reference] = _NONE) -> Graph:
        """Return the graph with the inputs of `order` only; `same` maps inputs to the one that stands for them.

        Raises KeyError when something that is left out is read.
        """
        numbers = {place: number for number, place in enumerate(order)}
        shift = len(order) - len(self.inputs)

        def number(value: Reference) -> Reference:
            return value + shift if value >= len(self.inputs) else numbers[same.get(value, value)]

        return replace(
            self,
            inputs=[self.inputs[place] for place in order],
            nodes=[node.renumbered(number) for node in self.nodes],
            outputs=[None if value is None else number(value) for value in self.outputs],
            effects=[number(value) for value in self.effects],
            gradients=[number(value) for value in self.gradients],
        )

    def part(self, nodes: Iterable[Reference]) -> Part:
        """Return the subgraph of these nodes (numbers of values) as a graph, and how it is connected.

        Values that something outside reads are its outputs. Weights stay weights.
        """
        chosen = sorted(set(nodes))
        inside = set(chosen)
        taken = sorted({value for place in chosen for value in self._node(place).references()} - inside)
        outside = {value for value in (*self.outputs, *self.effects) if value is not None}
        for place in range(len(self.inputs), len(self.inputs) + len(self.nodes)):
            if place not in inside:
                outside.update(self._node(place).references())
        given = [place for place in chosen if place in outside]
        numbers = {value: number for number, value in enumerate([*taken, *chosen])}
        graph = Graph(
            inputs=[self._border(value) for value in taken],
            nodes=[self._node(place).renumbered(numbers.__getitem__) for place in chosen],
            outputs=[numbers[place] for place in given],
            values=[self.spec_of(place) for place in chosen],
        )
        return Part(graph=graph, taken=taken, given=given)

    def _node(self, value: Reference) -> Node:
        return self.nodes[value - len(self.inputs)]

    def _border(self, value: Reference) -> TensorSpec:
        spec = self.spec_of(value)
        if spec is None:
            raise ValueError(f"value {value} is no single tensor, so that no part can begin with it")
        return spec

    def __str__(self) -> str:
        """`graph of 161 operators (float32 1×3×224×224)`."""
        given = ", ".join(str(self.inputs[place]) for place in self.variables)
        num = sum(node.operator != GETITEM for node in self.nodes)
        return f"training step of {num} operators" if self.gradients else f"graph of {num} operators ({given})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A subgraph, and how it is connected: `graph`'s inputs and outputs as values of the whole."""

    graph: Graph
    taken: Sequence[Reference]
    given: Sequence[Reference]


def references(argument: Json) -> Iterator[Reference]:
    """Yield the values that an argument names, in order."""
    if isinstance(argument, list):
        for item in argument:
            yield from references(item)
    elif isinstance(argument, dict) and "value" in argument:
        yield int(str(argument["value"]))


def scalars(arguments: Sequence[Json]) -> Iterator[Json]:
    """Yield what stands in arguments and the lists in them, in order."""
    for argument in arguments:
        if isinstance(argument, list):
            yield from scalars(argument)
        else:
            yield argument


def _renumbered(argument: Json, number: Callable[[Reference], Reference]) -> Json:
    if isinstance(argument, list):
        return [_renumbered(item, number) for item in argument]
    if isinstance(argument, dict) and "value" in argument:
        return {"value": number(int(str(argument["value"])))}
    return argument


Item = TypeVar("Item")


def post_order(roots: Sequence[Item], known: Container[Item], needs: Callable[[Item], Sequence[Item]]) -> list[Item]:
    """Return what `roots` need, each item after what it `needs`, in the order in which it is first needed.

    What is `known` already, and what it needs, is left out.
    """
    done: set[Item] = set()
    order: list[Item] = []
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        item, is_ready = stack.pop()
        if item in done or item in known:
            continue
        if is_ready:
            done.add(item)
            order.append(item)
            continue
        stack.append((item, True))
        stack.extend((other, False) for other in reversed(needs(item)))
    return order


Work = Task | Graph


def work_from_json(data: Mapping[str, Any]) -> Work:
    """Rebuild a task or a graph from its `to_json`. Raises KeyError, TypeError or ValueError on foreign input."""
    return Graph.from_json(data) if "nodes" in data else Task.from_json(data)


INTEGER_DISTANCE = 0.1
"""What another integer among the arguments adds to a distance."""
STRIDE_DISTANCE = 0.5
"""What another order of the strides of an input adds."""


def structure_of(work: Work) -> str:
    """Return the SHA-256, in hexadecimal, of what is left of `work` without its sizes."""
    return digest(_blank(work))


def distance(one: Work, other: Work) -> float:
    """Return how far apart two of one structure are; 0 for the same.

    The sum over the dimensions of the inputs of |ln(size / other size)|, and a little for every other difference.
    Raises ValueError for two of different structure.
    """
    if structure_of(one) != structure_of(other):
        raise ValueError(f"{one} and {other} have different structures")
    pairs = zip(one.tensors.values(), other.tensors.values(), strict=True)
    numbers = zip(_integers(one), _integers(other), strict=True)
    return sum(_apart(*pair) for pair in pairs) + INTEGER_DISTANCE * sum(left != right for left, right in numbers)


def _blank(work: Work) -> Json:
    tensors: list[Json] = [[name, spec.dtype, len(spec.shape), spec.constant] for name, spec in work.tensors.items()]
    if not isinstance(work, Graph):
        return {"operator": work.operator, "tensors": tensors, "arguments": _without_integers(dict(work.arguments))}
    nodes: list[Json] = [_without_integers(node.to_json()) for node in work.nodes]
    return {"tensors": tensors, "nodes": nodes, "outputs": list(work.outputs), "effects": list(work.effects)}


def _without_integers(value: Json) -> Json:
    """Return JSON with every integer replaced by one mark, apart from the numbers of values in a graph."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"integer": None}
    if isinstance(value, list):
        return [_without_integers(item) for item in value]
    if isinstance(value, Mapping):
        return value if set(value) == {"value"} else {name: _without_integers(item) for name, item in value.items()}
    return value


def _integers(work: Work) -> Iterator[int]:
    """Yield the integers among the arguments, in an order that is the same for one structure."""
    arguments: Any = [node.to_json() for node in work.nodes] if isinstance(work, Graph) else dict(work.arguments)
    yield from _integers_in(arguments)


def _integers_in(value: Json) -> Iterator[int]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _integers_in(item)
    elif isinstance(value, Mapping) and set(value) != {"value"}:
        for name in sorted(value):
            yield from _integers_in(value[name])


def _apart(one: TensorSpec, other: TensorSpec) -> float:
    sizes = sum(abs(math.log((left + 1) / (right + 1))) for left, right in zip(one.shape, other.shape, strict=True))
    return sizes + (STRIDE_DISTANCE if _order(one) != _order(other) else 0.0)


def _order(spec: TensorSpec) -> list[int]:
    """Return the dimensions from the greatest stride to the least; those of one element are left out."""
    long = [dimension for dimension, size in enumerate(spec.shape) if size > 1]
    return sorted(long, key=lambda dimension: (-spec.stride[dimension], dimension))
