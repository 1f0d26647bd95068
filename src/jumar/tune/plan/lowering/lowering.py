"""A lowering: which operators of a graph are computed in fewer bits, as plain data.

`kind_of` says what an operator may be computed in: the vendor's white, gray and black lists, for aten.

- *white*: products and convolutions. They sum in 32 bits inside and are where the time goes;
- *gray*: cheap operators that only move or scale values: lowered where their neighbours are, so that no cast
  stands between;
- *black*: everything else. Exponentials, logarithms, powers and divisions by sums, norms, losses, and
  reductions over many elements lose more than they gain; and what is not known here is not risked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from jumar.base.findings import Json
from jumar.operators import has, has_any, short_name
from jumar.tune.graph import Graph, Node, Reference
from jumar.tune.graph.graph import GETITEM, scalars
from jumar.tune.model.errors import TuneError

LowPrecision = Literal["bf16", "fp16", "int8"]
PRECISIONS: tuple[LowPrecision, ...] = get_args(LowPrecision)
DTYPES: Mapping[LowPrecision, str] = {"bf16": "bfloat16", "fp16": "float16"}
"""The floating-point type that each stands for; `int8` is no type but steps of a scale."""

Range = tuple[float, float]
"""Least and greatest value that a tensor is expected to hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowering:
    """Which nodes are computed in which precision. All others stay as the graph says.

    Nodes and values are numbered as in the graph that is lowered, not as in the one that comes out.
    Raises TuneError, when built, for an unknown precision or a range that is none.
    """

    nodes: Mapping[Reference, LowPrecision] = field(default_factory=dict)
    ranges: Mapping[Reference, Range] = field(default_factory=dict)
    """What was seen of the values that are rounded to int8; weights need none."""
    early: bool = False
    """Values for int8 are rounded where they are made, so that what only moves them moves 8 bits: all that such
    operators connect shares one range. Else they are rounded where an operator in int8 reads them."""

    def __post_init__(self) -> None:
        for node, precision in self.nodes.items():
            if precision not in PRECISIONS:
                raise TuneError(
                    f"node {node} has precision {precision!r} and must have one of {', '.join(PRECISIONS)}."
                )
        for value, (low, high) in self.ranges.items():
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise TuneError(f"value {value} has the range {low:g} to {high:g}, which is none; observe it again.")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Lowering:
        """Rebuild a lowering from `to_json`; an empty object is no lowering. Raises TuneError on foreign input."""
        try:
            nodes: dict[int, Any] = {int(node): name for name in PRECISIONS if name in data for node in data[name]}
            ranges = {int(value): (float(low), float(high)) for value, low, high in data.get("ranges", ())}
            if strange := [name for name in data if name not in {*PRECISIONS, "ranges", "early"}]:
                raise TuneError(f"a lowering is lists of nodes by {', '.join(PRECISIONS)}; {strange[0]!r} is none.")
        except (TypeError, ValueError, AttributeError) as error:
            raise TuneError(f"a lowering must be lists of nodes by precision; {error}.") from error
        return cls(nodes=nodes, ranges=ranges, early=bool(data.get("early", False)))

    def to_json(self) -> dict[str, Json]:
        """Return the lowering as JSON values: the nodes by precision, and the ranges."""
        data: dict[str, Json] = {}
        for name in PRECISIONS:
            if chosen := sorted(node for node, precision in self.nodes.items() if precision == name):
                data[name] = [*chosen]
        if self.ranges:
            data["ranges"] = [[value, *self.ranges[value]] for value in sorted(self.ranges)]
        return data | ({"early": True} if self.early else {})

    def __bool__(self) -> bool:
        return bool(self.nodes)

    def __str__(self) -> str:
        """`52 bf16, 3 int8`, `52 int8 early`."""
        counts = ((name, sum(precision == name for precision in self.nodes.values())) for name in PRECISIONS)
        return ", ".join(f"{count} {name}" for name, count in counts if count) + (" early" if self.early else "")


Kind = Literal["white", "gray", "black"]

GREATEST = {"bf16": 3.3895313892515355e38, "fp16": 65504.0}
"""Greatest finite numbers; a constant beyond them would become infinite."""

_BATCH_NORM_TRAINING = 5


def base_of(node: Node) -> str:
    """Return the operator without namespace and overload; with the namespace where it is not aten."""
    return short_name(node.operator)


def is_white(base: str) -> bool:
    """Tell whether an operator of aten is a product or a convolution; parts of one (`_scaled_mm`) are not lowered.

    `batch_norm` is gray only where it does not train: it is then one factor and one summand a channel.
    """
    if base.startswith("_") or "::" in base or has(base, "backward"):
        return False
    return has_any(base, "product", "convolution", "attention")


def kind_of(node: Node) -> Kind:
    """Return the list that an operator call is on. One that is told its type keeps it: black."""
    base = base_of(node)
    if any(_names_dtype(argument) for argument in scalars([*node.arguments, *node.keywords.values()])):
        return "black"
    if base == "batch_norm" and _argument(node, _BATCH_NORM_TRAINING, "training"):
        return "black"
    return "white" if is_white(base) else "gray" if has(base, "low_precision_safe") else "black"


def may_be(graph: Graph, value: Reference, precision: LowPrecision) -> bool:
    """Tell whether the node that makes `value` may be computed in `precision`: its type, its list, its constants."""
    node = graph.producer(value)
    if node is None or value in graph.effects:
        return False
    if node.operator == GETITEM:
        return may_be(graph, next(node.references()), precision) and _is_float32(graph, value)
    if kind_of(node) == "black" or not _computes_float32(graph, value, node):
        return False
    if precision == "int8":
        return True
    greatest = GREATEST[precision]
    return all(abs(number) <= greatest for number in _numbers(node))


def _computes_float32(graph: Graph, value: Reference, node: Node) -> bool:
    """Tell whether all floating-point values it reads are float32, at least one is, and what it makes is, too."""
    read = [spec.dtype for place in node.references() if (spec := graph.spec_of(place)) is not None]
    floats = [dtype for dtype in read if "float" in dtype or "complex" in dtype]
    made = graph.spec_of(value)
    return bool(floats) and set(floats) == {"float32"} and (made is None or made.dtype == "float32")


def _is_float32(graph: Graph, value: Reference) -> bool:
    spec = graph.spec_of(value)
    return spec is not None and spec.dtype == "float32"


def _names_dtype(argument: Json) -> bool:
    return isinstance(argument, dict) and "dtype" in argument


def _argument(node: Node, place: int, name: str) -> Json:
    return node.arguments[place] if len(node.arguments) > place else node.keywords.get(name)


def _numbers(node: Node) -> Iterator[float]:
    """Yield the finite numbers among the arguments; an infinity is one in every precision."""
    for argument in scalars([*node.arguments, *node.keywords.values()]):
        if isinstance(argument, float) and math.isfinite(argument):
            yield argument
