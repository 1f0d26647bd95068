"""`Advice`, the answer of `advise`: findings, the operator table, the steps, and what was not checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jumar.advise.checks import NotChecked
from jumar.base.findings import Finding


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
    bytes_per_step: float
    """Least bytes read and written, from shapes."""
    flops_per_step: float | None
    """None where the operator has no formula (see `jumar.operators.flops`)."""
    dtypes: tuple[str, ...]
    phases: tuple[str, ...]
    is_view: bool
    support: str
    """`native`, `decomposed`, `fallback`, `unsupported`, `view`, or empty when the tables do not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary:
    """One recorded step, host times of the recorded run in microseconds."""

    step: int
    span_us: float
    """From the step's start to the end of its last call; the observer's own work is left out."""
    operator_us: float
    """Sum of the operators' own host times."""
    phase_us: dict[str, float]
    """`operator_us` by phase: `forward`, `backward`, `optimizer`."""
    wait_us: float
    """Before the model is first called, without operators on the device: loading the batch, mostly."""
    num_operators: int
    """Operators that start work on a device; views and allocations are left out."""
    bytes_moved: int
    flops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
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
            "warnings": list(self.warnings),
        }
