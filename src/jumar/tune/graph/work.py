"""What is tuned: one operator call or a graph of them. Both have a key, an identity and tensors.

What tasks and graphs of different sizes have in common, and how far apart they are.

Two have one structure when operators, their wiring, dtypes, ranks and settings that are no integers are equal:
then the choices made for one are worth trying first for the other. Integers (sizes, kernel sizes, dimensions) only
make them more distant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from jumar.base.findings import Json
from jumar.tune.graph import Graph
from jumar.tune.model.task import Task, TensorSpec, digest

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
