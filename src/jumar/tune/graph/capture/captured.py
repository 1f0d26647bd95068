"""A captured model: its graph, its weights, and what was noticed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jumar.base.findings import Finding, Json, Severity
from jumar.tune.graph.graph import Graph


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

    @property
    def reason_not_tuned(self) -> str:
        """Why it must not be tuned, as one sentence; empty when it may be."""
        return next((one.message for one in self.findings if one.severity >= Severity.ERROR), "")
