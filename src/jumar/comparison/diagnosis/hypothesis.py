"""`Hypothesis`: a guess at the cause of a difference, its figures, and what would confirm it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from jumar.base.findings import Json

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

    The share of its norm, that is: a good fit is told from a perfect one. 0 where too little is explained.
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
