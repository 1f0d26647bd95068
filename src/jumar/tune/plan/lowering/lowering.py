"""A lowering: which operators of a graph are computed in fewer bits, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from jumar.base.findings import Json
from jumar.tune.graph import Reference
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
