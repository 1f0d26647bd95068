"""What is asked of a capture and what it gives: the sizes of the inputs, and `Captured`, a model's graph.

The sizes are those of `--input-shape "x:1,3,224,224;8,3,224,224;mask:1,10;8,10"`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from jumar.base.errors import UsageError
from jumar.base.findings import Finding, Json, Severity
from jumar.tune.graph.graph import Graph

_PART = re.compile(r"\s*(?:(?P<name>[\w./][\w.:/-]*?)\s*:)?\s*(?P<sizes>\d+(?:\s*,\s*\d+)*)\s*(?::(?P<dtype>\w+))?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputShape:
    """One input of one gear."""

    name: str
    """Empty: by its place."""
    shape: tuple[int, ...]
    dtype: str = ""
    """Empty: as the model says, else float32."""

    def __str__(self) -> str:
        """`8x3x224x224`."""
        return "x".join(map(str, self.shape))


Gear = Sequence[InputShape]


def parse_shapes(text: str, option: str = "--input-shape") -> list[Gear]:
    """Return the gears, each with one shape an input; empty for empty text. Raises UsageError for anything else."""
    inputs: list[list[InputShape]] = []
    for part in text.split(";") if text.strip() else []:
        match = _PART.fullmatch(part)
        if match is None:
            raise UsageError(f'"{option} {text}" must look like x:1,3,224,224;8,3,224,224; "{part}" is no such shape.')
        shape = tuple(int(size) for size in match["sizes"].split(","))
        _check_dtype(match["dtype"], option)
        found = InputShape(name=match["name"] or "", shape=shape, dtype=match["dtype"] or "")
        _place(inputs, found)
    return _gears(inputs, text, option)


def _place(inputs: list[list[InputShape]], found: InputShape) -> None:
    """Put a shape to the input it belongs to."""
    for known in inputs:
        if found.name and known[0].name == found.name:
            known.append(found)
            return
    if found.name or not inputs:
        inputs.append([found])
        return
    last = inputs[-1]
    last.append(InputShape(name=last[0].name, shape=found.shape, dtype=found.dtype or last[0].dtype))


def _gears(inputs: Sequence[Sequence[InputShape]], text: str, option: str) -> list[Gear]:
    counts = {len(shapes) for shapes in inputs} - {1}
    if len(counts) > 1:
        raise UsageError(
            f'"{option} {text}" must give every input equally many sizes, or one; got '
            f"{', '.join(str(len(shapes)) for shapes in inputs)}."
        )
    num_gears = counts.pop() if counts else min(len(inputs), 1)
    return [[shapes[gear if len(shapes) > 1 else 0] for shapes in inputs] for gear in range(num_gears)]


def _check_dtype(name: str | None, option: str) -> None:
    known = {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"}
    if name and name not in known:
        raise UsageError(f'"{option} …:{name}" must end with a dtype, one of {", ".join(sorted(known))}.')


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One graph of a model, of static shape."""

    graph: Graph
    data: Path
    """Data file: weights and one set of variable inputs, by place (`jumar.tune.graph.capture.data`)."""
    name: str
    """`resnet50`, with the gear or the piece where there are several: `resnet50 8x3x224x224`, `net piece 2`."""
    origin: str = ""
    """Where it comes from, as the user wrote it: `model.pt2`, `models:resnet50`."""
    in_nesting: Json = None
    """How arguments and keyword arguments are nested around the flat inputs (`jumar.tune.graph.reading.nesting`); None:
    they are the graph's variable inputs."""
    out_nesting: Json = None
    """How the model's result is nested around `graph.outputs`; None: it is the tuple of them."""
    places: Sequence[int | None] = ()
    """For each flat argument of a call the place of the graph's input that it is; None: the graph does not read it.
    Arguments that were one tensor are one input, and the graph holds for such calls only."""
    state: Mapping[int, str] = field(default_factory=dict)
    """Variable inputs that the model keeps for itself from call to call, by place: the names of its buffers."""
    is_piece: bool = False
    """Whether it is a part of a model that is no single graph."""
    keeps_layout: str = ""
    """Why no other layout of its tensors may be chosen, as one sentence; empty: one may be."""
    findings: Sequence[Finding] = field(default=())

    def to_json(self) -> dict[str, Json]:
        """Return it as plain JSON values; the tensors stay in the data file. `from_json` is the inverse."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return values | {
            "graph": self.graph.to_json(),
            "data": str(self.data),
            "places": list(self.places),
            "state": [[place, name] for place, name in self.state.items()],
            "findings": [one.to_json() for one in self.findings],
        }

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> Captured:
        """Rebuild it from `to_json`. Raises KeyError, TypeError or ValueError on foreign input."""
        values = dict(described)
        values["graph"] = Graph.from_json(values["graph"])
        values["data"] = Path(values["data"])
        values["state"] = {int(place): str(name) for place, name in values["state"]}
        values["findings"] = tuple(Finding.from_json(one) for one in values["findings"])
        return cls(**values)

    @property
    def reason_not_tuned(self) -> str:
        """Why it must not be tuned, as one sentence; empty when it may be."""
        return next((one.message for one in self.findings if one.severity >= Severity.ERROR), "")
