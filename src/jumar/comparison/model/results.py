"""The result of a comparison: frozen values that turn into JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from jumar.base.findings import Finding
from jumar.base.lazy import Shown
from jumar.comparison.model.drift import Drift

Evidence = Literal["tensors", "sketches", "statistics", "hashes", "none"]
"""`tensors`: both recordings hold the values; `sketches`: the distance is estimated, within a known bound;
`statistics`: only lower bounds are known; `hashes`: equal or not; `none`: nothing is known. The best first."""

OperatorStatus = Literal["agree", "inherited", "diverge", "random", "not-compared"]
"""`inherited`: the output differs by no more than its inputs explain; `random`: the operator draws random
numbers and drew others; `not-compared` is never `agree`."""

ComparisonStatus = Literal["agree", "differ", "diverge", "incomparable"]
"""`diverge`: a value differs by more than rounding explains; `differ`: no value does, but the runs make other calls,
have other parameters, arguments, shapes, steps or ranks, or too little could be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """The greatest difference of a tensor pair and where it is."""

    difference: float
    index: tuple[int, ...]
    reference: float
    target: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorDiff:
    """One tensor of both recordings.

    `error` is the figure that is judged: the greater of ‖target - reference‖₂ and max|target - reference|,
    each relative to the scale of the tensor (or of the calculation, where terms cancel); of outputs in which
    rounding may switch single elements (masks, ReLU's gradient), without those. With evidence `statistics`
    every figure is a lower bound and the exact ones are None; with `sketches` `cosine` and `l2_relative` are
    estimates, and `error` is the lower end of what the distance may be.
    """

    name: str
    shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    dtype: str
    target_dtype: str
    evidence: Evidence
    error: float | None = None
    cosine: float | None = None
    l2_relative: float | None = None
    max_abs: Spot | None = None
    max_relative: Spot | None = None
    """Among the elements where the reference is not zero, relative to the reference's element."""
    num_different: int | None = None
    l2_relative_at_least: float | None = None
    max_abs_at_least: float | None = None
    num_nonfinite: int = 0
    target_num_nonfinite: int = 0
    note: str = ""
    """Why there is nothing to judge, or what is not known."""

    @property
    def nonfinite_differs(self) -> bool:
        """Whether one side has more NaN or Inf elements than the other."""
        return self.num_nonfinite != self.target_num_nonfinite


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentDiff:
    """A scalar argument with which the two sides called the operator differently."""

    name: str
    reference: Any
    target: Any
    given: bool = True
    """Both sides named the argument; otherwise "(default)" stands for the side that did not."""

    def __str__(self) -> str:
        return f"{self.name} {self.reference!r} against {self.target!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorDiff:
    """One call, in both recordings or (name empty on the other side) in one of them."""

    step: int
    rank: int
    kind: str
    phase: str
    module_path: str
    module_type: str
    occurrence: int
    reference_name: str
    target_name: str
    reference_seq: int | None
    target_seq: int | None
    source: str
    """User source line, of the target's run where it is known."""
    reference_source: str
    status: OperatorStatus
    error: float | None = None
    """Greatest error of the outputs (see `TensorDiff.error`)."""
    tolerance: float | None = None
    """What that output may differ by: rounding of this operator plus what the inputs explain."""
    tolerance_origin: str = ""
    rounding: float | None = None
    """The part of the tolerance that is this operator's own rounding."""
    floor: float | None = None
    """The noise floor of that output: by how much correct executions differ, measured or estimated. The tolerance
    is a multiple of it."""
    inherited: float | None = None
    """Greatest error found in the inputs."""
    arguments: tuple[ArgumentDiff, ...] = ()
    inputs: Sequence[TensorDiff] = ()
    outputs: Sequence[TensorDiff] = ()
    note: str = ""

    @property
    def name(self) -> str:
        """The operator, with both names where they differ."""
        if self.reference_name and self.target_name and self.reference_name != self.target_name:
            return f"{self.reference_name} / {self.target_name}"
        return self.target_name or self.reference_name

    @property
    def multiple(self) -> float | None:
        """The error in multiples of the tolerance; None when either is unknown, inf for a tolerance of 0."""
        if self.error is None or self.tolerance is None:
            return None
        if self.tolerance == 0:
            return math.inf if self.error > 0 else 0.0
        return self.error / self.tolerance

    @property
    def times_floor(self) -> float | None:
        """The error in multiples of the noise floor; None when either is unknown or the floor is 0."""
        return None if self.error is None or not self.floor else self.error / self.floor


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedCall:
    """A call that only one recording has."""

    step: int
    rank: int
    phase: str
    module_path: str
    name: str
    seq: int
    source: str
    layout_only: bool
    """A view or a copy: devices insert and leave out these freely."""
    explained: str = ""
    """Why it is no difference between the programs (`comparison.align.explained`); empty when it is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPair:
    """The losses of one step; None where a recording has none for it."""

    step: int
    rank: int
    reference: float | None
    target: float | None
    error: float | None
    """Relative difference; None when either is missing or not finite on both sides."""
    tolerance: float
    agrees: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Which run a recording is of."""

    path: str
    device: str
    command: tuple[str, ...]
    torch_version: str
    values: str
    steps: tuple[int, ...]
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How many of one kind were compared, of how many that the recordings hold in the compared steps."""

    compared: int = 0
    reference: int = 0
    target: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all that either recording holds was compared."""
        return self.compared >= max(self.reference, self.target)

    def of(self, nouns: str) -> str:
        """Return `3 of the reference's 4 calls`, naming the side or sides of which something is left."""
        if self.reference == self.target:
            return f"{self.compared:,} of {self.reference:,} {nouns}"
        sides = {"the reference's": self.reference, "the target's": self.target}
        left = " and ".join(f"{side} {num:,}" for side, num in sides.items() if num > self.compared)
        return f"{self.compared:,} of {left} {nouns}" if left else f"all {self.compared:,} {nouns}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was compared."""

    calls: Share = field(default_factory=Share)
    """Calls of operators (of modules, where no operators were recorded on both sides) that have a partner, or belong to
    a calculation that the sides make with other calls and whose result was compared."""
    values: int = 0
    """Pairs of calls of which values were compared."""
    gradients: Share = field(default_factory=Share)
    """Gradients that an optimizer read, one a parameter and step."""
    parameters: Share = field(default_factory=Share)
    """Parameters after the optimizer's step, one a parameter and step."""
    losses: Share = field(default_factory=Share)
    """Losses of the compared steps."""
    steps: Share = field(default_factory=Share)
    """Steps of the compared ranks."""
    ranks: Share = field(default_factory=Share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Shown):
    """The answer to "do these two runs compute the same", and how it is known."""

    status: ComparisonStatus
    headline: str
    """One sentence: the answer."""
    reference: RunSummary
    target: RunSummary
    first_divergence: OperatorDiff | None
    operators: Sequence[OperatorDiff]
    """In the reference's order of execution; those that agree may be left out (`options.max_operators`)."""
    unmatched_reference: Sequence[UnmatchedCall]
    unmatched_target: Sequence[UnmatchedCall]
    losses: Sequence[LossPair]
    findings: Sequence[Finding]
    steps: Sequence[int]
    """Steps whose operators were compared."""
    num_operators: dict[str, int]
    """Operator comparisons by status, over all compared steps."""
    evidence: Evidence
    notes: Sequence[str] = ()
    """What was not compared, one sentence each."""
    coverage: Coverage = field(default_factory=Coverage)
    """How much of both recordings was compared."""
    differences: Sequence[str] = ()
    """What stands against an agreement beside values, one sentence each (`comparison.verdict.agreement`)."""
    drifts: Sequence[Drift] = ()
    """Of each rank whose runs both hold numbers of every step: how far they are apart, and where that began."""

    def to_json(self, *, all_operators: bool = False) -> dict[str, Any]:
        """Return plain JSON values; infinities and NaN become "Infinity", "-Infinity" and "NaN".

        Of the operators, those that diverge, at most `MAX_JSON_OPERATORS`; all that were kept on request.
        """
        data: dict[str, Any] = {
            one.name: plain(getattr(self, one.name))
            for one in fields(self)
            if one.name not in {"operators", "findings"}
        }
        shown = [diff for diff in self.operators if all_operators or diff.status in {"diverge", "random"}]
        data["operators"] = plain(shown if all_operators else shown[:MAX_JSON_OPERATORS])
        data["findings"] = [plain(finding.to_json()) for finding in self.findings]
        return data


MAX_JSON_OPERATORS = 200
"""Divergences after the first one are its consequences, so a few of them are enough."""


def plain(value: Any) -> Any:
    """Return `value` as JSON values: dataclasses as objects, sequences as lists, non-finite floats as strings."""
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, str | int | bool):
        return value
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value]
