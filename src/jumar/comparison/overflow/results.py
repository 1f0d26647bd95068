"""The result of `find_overflow`. All classes are frozen; `to_json` is plain JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from jumar.base.findings import Finding
from jumar.base.lazy import Shown
from jumar.comparison.overflow.skips import Skip
from jumar.recording.schema import CallRow, TensorRow

if TYPE_CHECKING:
    from jumar.comparison.overflow.options import Mode

OriginKind = Literal["overflow", "invalid", "constant", "uninitialised", "data", "parameter", "state", "unseen", "peer"]
"""`overflow`: Inf out of finite inputs; `invalid`: NaN out of finite inputs; `constant`: an Inf that the program put
there; `uninitialised`: memory nobody had written; `data`, `parameter`, `state`: came from outside the step; `unseen`:
written where the observer could not see; `peer`: came with a collective from another rank."""

Fate = Literal["consumed", "absorbed", "unread", "loss-scale"]
"""`consumed`: reaches the loss, a gradient or a parameter; `absorbed`: all that read it give finite values;
`unread`: nothing reads it; `loss-scale`: only because of the loss scale, in a step that the scaler skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One operator before an origin, with the greatest absolute values of its inputs and outputs."""

    seq: int
    operator: str
    phase: str
    module_path: str
    source: str
    greatest_input: float | None
    """Greatest absolute value of the finite elements; None where not known."""
    greatest_output: float | None
    num_nonfinite: int
    """NaN and Inf elements of the outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One tensor of one call."""

    step: int
    rank: int
    seq: int
    operator: str
    """`aten::exp`, or a module's class where only modules were recorded."""
    module_path: str
    module_type: str
    phase: str
    source: str
    key: str
    """`CallRow.key` of the call."""
    tensor: str
    """`output.0`, or the input in which it is first seen."""
    dtype: str


def sighting(row: CallRow, tensor: TensorRow) -> dict[str, Any]:
    """Return the fields of a `Sighting` by name."""
    return {
        "step": row.step,
        "rank": row.rank,
        "seq": row.seq,
        "operator": row.name,
        "module_path": row.module_path,
        "module_type": row.module_type,
        "phase": row.phase,
        "source": row.source,
        "key": row.key,
        "tensor": tensor.name,
        "dtype": tensor.dtype,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin(Sighting):
    """Where NaN or Inf elements come from, and whether they reach the loss or a parameter."""

    kind: OriginKind
    fate: Fate
    shape: tuple[int, ...]
    num_nan: int
    num_inf: int
    cause: str
    """What happened, in words and numbers."""
    action: str
    """What to do about it."""
    reaches: str = ""
    """The loss, a gradient, a parameter; empty unless it is consumed."""
    absorbed_by: str = ""
    """The first operator that read it and gave finite values."""
    turned_by: str = ""
    """The operator that made NaN of its Inf."""
    is_atomic: bool = False
    exact: bool = False
    """Whether whole tensors were looked at, rather than statistics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation(Sighting):
    """An output at the end of its type's range though no input was."""

    value: float
    certain: bool
    """Whether the device is known to saturate and the value is the type's last."""
    used: bool
    """Whether it flows into the loss or a parameter."""
    is_atomic: bool
    cause: str
    skipped: bool = False
    """Whether the scaler left out the step's update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowReport(Shown):
    """The answer of `find_overflow`: the origins that do harm, the harmless ones, and the findings."""

    path: str
    device: str
    mode: Mode
    steps: tuple[int, ...]
    ranks: tuple[int, ...]
    origins: tuple[Origin, ...]
    """Those that are used, in the order of the steps, then of the calls."""
    benign: tuple[Origin, ...]
    """Those that do no harm, the first of each operator and module path."""
    num_benign: int
    saturations: tuple[Saturation, ...]
    skips: tuple[Skip, ...]
    frames: tuple[Frame, ...]
    """The last operators before the first origin, that one last."""
    notes: tuple[str, ...]
    """What could not be looked at."""
    num_calls: int
    findings: tuple[Finding, ...] = ()
    headline: str = ""

    @property
    def first(self) -> Origin | None:
        """The first origin that is used."""
        return self.origins[0] if self.origins else None

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values, findings included."""
        body = {
            name: getattr(self, name)
            for name in ("path", "device", "mode", "steps", "ranks", "num_benign", "notes", "num_calls", "headline")
        }
        for name in ("origins", "benign", "saturations", "skips", "frames"):
            body[name] = [asdict(item) for item in getattr(self, name)]
        body["findings"] = [finding.to_json() for finding in self.findings]
        return {name: plain(value) for name, value in body.items()}


def plain(value: Any) -> Any:
    """Return a value as strict JSON has it: tuples as lists, NaN and Inf as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


@dataclass(slots=True)
class Found:
    """What one rank's walk has gathered, before findings are made."""

    origins: list[Origin] = field(default_factory=list)
    saturations: list[Saturation] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    num_calls: int = 0
