"""`Advice`, the answer of `advise`: findings, the operator table, the steps, and what was not checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from jumar.advise.checks import NotChecked
from jumar.base.findings import Finding
from jumar.base.lazy import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSummary:
    """One operator over all recorded steps."""

    name: str
    """`aten::add.Tensor`."""
    num_calls: int
    calls_per_step: float
    host_time_us_per_step: float
    """Host time of the recorded run: a guide to where Python and PyTorch spend time, not NPU time."""
    host_time_share: float
    """Of the host time of all operators, 0 to 1."""
    bytes_per_step: float | None
    """Least bytes read and written, from shapes; None where they are not known."""
    flops_per_step: float | None
    """None where the operator has no formula (see `jumar.operators.flops`)."""
    dtypes: tuple[str, ...]
    phases: tuple[str, ...]
    is_view: bool
    support: str
    """`native`, `decomposed`, `fallback`, `unsupported`, `view`, or empty when the tables do not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary:
    """One step, times in microseconds: of a recording the host's, of a profile those of the steps' parts."""

    step: int
    span_us: float
    """From the step's start to its end: of a recording to the end of its last call, without the observer's own work."""
    operator_us: float
    """Sum of the operators' own host times."""
    phase_us: dict[str, float]
    """Of a recording `operator_us` by phase: `forward`, `backward`, `optimizer`. Of a profile the parts of the
    step, which add up to `span_us` (`jumar.timeline.decompose`)."""
    wait_us: float | None
    """Before the model is first called, without operators on the device: loading the batch, mostly. None of a
    profile, where waiting for data is a part."""
    num_operators: int
    """Operators that start work on a device; views and allocations are left out."""
    bytes_moved: int | None
    """None where it is not known."""
    flops: int | None
    """None where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice(Shown):
    """The answer about one rank of a recording. Findings come most useful first."""

    recording: str
    device: str
    soc: str
    rank: int
    num_steps: int
    findings: Sequence[Finding]
    operators: Sequence[OperatorSummary]
    steps: Sequence[StepSummary]
    not_checked: Sequence[NotChecked]
    checked: Sequence[str]
    """Codes of the rules that ran on this recording, with or without a finding."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Of a profile: the parts of a step and what they are, in words. Empty of a recording."""
    saves_at_most_ms: float | None = None
    """Of a profile: what all findings could save together at most, in milliseconds a step."""
    warnings: Sequence[str] = ()
    """What the recording reports as missing, e.g. a step cut short."""

    def to_json(self) -> dict[str, Any]:
        """Return all but the findings as plain JSON values, for `findings_document(findings, **…)`."""
        return {
            "recording": self.recording,
            "device": self.device,
            "soc": self.soc,
            "rank": self.rank,
            "num_steps": self.num_steps,
            "operators": [asdict(operator) for operator in self.operators],
            "steps": [asdict(step) for step in self.steps],
            "checked": list(self.checked),
            "not_checked": [item.to_json() for item in self.not_checked],
            "parts": dict(self.parts),
            "saves_at_most_ms": self.saves_at_most_ms,
            "warnings": list(self.warnings),
        }
