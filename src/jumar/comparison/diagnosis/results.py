"""`Diagnosis`, the result of a diagnosis, and its parts down to one `Hypothesis`: frozen values that turn into JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jumar.base.findings import Finding, Json
from jumar.comparison.model.results import plain

Cause = Literal[
    "none",
    "not compared",
    "data",
    "parameters",
    "random numbers",
    "ranks",
    "nonfinite",
    "forward",
    "backward",
    "optimizer",
    "not recorded",
]
"""Where the decision flow ended. `none`: the runs agree; `not recorded`: the losses differ and nothing recorded shows
why."""

State = Literal["fine", "attention", "failed", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question of the flow, how it was answered and by what."""

    question: str
    answer: str
    state: State
    """`fine`: the search goes on elsewhere; `failed`: here it is; `attention`: noted, the search goes on; `unknown`: it
    could not be answered."""
    evidence: str = ""
    """The figures, or the finding, that the answer rests on."""
    cause: Cause | None = None
    """Set by the answer that ends the search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCurve:
    """Gradients and parameters of one step and rank, over all `parameter` rows; None where not recorded."""

    step: int
    rank: int
    reference_norm: float | None
    """L2 norm of all gradients that the optimizer read."""
    target_norm: float | None
    gradient_error: float | None
    """‖target - reference‖₂ of all gradients relative to `reference_norm`; a lower bound from statistics."""
    parameter_error: float | None
    """The same of all parameters after the step, relative to their norm."""
    worst_gradient: str = ""
    """The parameter whose gradient contributes most to `gradient_error`."""
    num_parameters: int = 0


Kind = Literal[
    "scale",
    "offset",
    "layout",
    "index",
    "tiling",
    "mask",
    "saturation",
    "denormals",
    "sign",
    "formula",
    "normalisation",
    "rounding",
    "precision",
    "accumulation",
    "stale",
    "randomness",
    "ill-conditioned",
    "arguments",
]
"""Families of causes. A kind is a stable word for programs; `Hypothesis.statement` is for people."""

CERTAIN = 0.97
LIKELY = 0.8
"""Scores from which a hypothesis is called certain, or likely; below it is possible."""

LEAST = 0.5
"""Hypotheses below this score are not given: they would explain less than half of what is seen."""


CLAIM = 0.75
"""A transformation that explains less of the difference's energy is not its cause, nor the main part of it."""


def claimed(share: float) -> float:
    """Return the score of a transformation that explains this share of a difference's energy.

    The score is a share of the norm, so that a good fit is told from a perfect one. It is 0 where too little is
    explained.
    """
    return 1.0 - math.sqrt(max(1.0 - share, 0.0)) if share >= CLAIM else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One guess at the cause of a difference."""

    kind: Kind
    statement: str
    """One sentence: what is seen and what it points to."""
    confirm: str
    """One sentence: what to do to confirm or refute it."""
    score: float
    """Between 0 and 1: the share of the difference that it explains, less for weaker kinds of evidence."""
    evidence: Mapping[str, Json] = field(default_factory=dict)

    @property
    def confidence(self) -> Literal["certain", "likely", "possible"]:
        """The score in the words of findings."""
        return "certain" if self.score >= CERTAIN else "likely" if self.score >= LIKELY else "possible"


def ranked(hypotheses: Iterable[Hypothesis]) -> tuple[Hypothesis, ...]:
    """Return the hypotheses that explain enough, the best first, and of each kind only the best."""
    best: dict[str, Hypothesis] = {}
    for one in hypotheses:
        if one.score >= LEAST and (one.kind not in best or best[one.kind].score < one.score):
            best[one.kind] = one
    return tuple(sorted(best.values(), key=lambda one: -one.score))


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """A hypothesis about one tensor of one call."""

    hypothesis: Hypothesis
    operator: str
    tensor: str
    module_path: str
    phase: str
    step: int
    rank: int
    source: str
    seen_in: Literal["tensors", "sketches", "statistics", "arguments"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A call whose whole tensors are worth recording."""

    step: int
    rank: int
    key: str
    """`CallRow.key`."""
    role: Literal["first divergence", "producer", "neighbour"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The way through the decision flow, where it ended, and what is suspected there."""

    cause: Cause
    conclusion: str
    """One sentence."""
    path: Sequence[Answer] = ()
    suspicions: Sequence[Suspicion] = ()
    suspects: Sequence[Suspect] = ()
    curves: Sequence[StepCurve] = ()
    findings: Sequence[Finding] = ()
    notes: Sequence[str] = ()
    """What could not be looked at, one sentence each."""
    facts: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, without the findings (the document has them already)."""
        names = ("cause", "conclusion", "path", "suspicions", "suspects", "curves", "notes", "facts")
        return {name: plain(getattr(self, name)) for name in names}
