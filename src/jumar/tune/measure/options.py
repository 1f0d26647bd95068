"""What a tuning run is asked to do."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from jumar.base.errors import UsageError
from jumar.tune.measure.worker.messages import Effort, Limits

JOB_SUBGRAPHS = 1
JOB_OPERATORS = 2
"""The vendor's numbers for subgraph tuning (SGAT) and operator tuning (OPAT)."""

_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """Raises UsageError, when built, for a value outside its range."""

    job_type: int = JOB_OPERATORS
    min_gain: float = 0.02
    """0.02: the whole confidence interval must be at least 2 % faster."""
    time_budget_s: float | None = None
    """No candidate is begun after it, and one under way is ended with it; None: no limit."""
    max_trials: int | None = None
    """Candidates to measure at most; None: all."""
    repeat: bool = False
    """REPEAT_TUNE: tune again what the bank has, and replace it only by something measured better."""
    seed: int = 0
    screening: Effort = field(default_factory=lambda: Effort(seconds=0.4, max_pairs=61))
    confirmation: Effort = field(default_factory=lambda: Effort(seconds=0.8, min_pairs=25, max_pairs=151))
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.job_type not in {JOB_SUBGRAPHS, JOB_OPERATORS}:
            raise UsageError(f"--job-type must be 1 (subgraphs) or 2 (operators); got {self.job_type}.")
        if not 0 <= self.min_gain < 10:
            raise UsageError(f"--min-gain must be from 0 % to 1000 %; got {self.min_gain:.0%}. Try --min-gain 2%.")
        if self.time_budget_s is not None and self.time_budget_s <= 0:
            raise UsageError(f"--time-budget must be more than nothing; got {self.time_budget_s:g} s. Try 2m.")
        if self.max_trials is not None and self.max_trials < 1:
            raise UsageError(f"--trials must be 1 or more; got {self.max_trials}. Leave it out for no limit.")


def parse_percent(text: str, option: str) -> float:
    """Return 0.02 for `2%` or `2`. Raises UsageError for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%?\s*", text)
    if match is None:
        raise UsageError(f'"{option} {text}" must be a percentage. Try {option} 2%.')
    return float(match[1]) / 100


def parse_duration_s(text: str, option: str) -> float:
    """Return seconds for `90`, `90s`, `1.5m`, `1h`. Raises UsageError for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([smh]?)\s*", text)
    if match is None:
        raise UsageError(f'"{option} {text}" must be a number with s, m or h. Try {option} 2m.')
    return float(match[1]) * _UNITS_S[match[2]]
