"""What a run is asked to do: `TuneOptions`, `Space` for graphs, `PrecisionOptions` for fewer bits."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import UsageError
from jumar.tune.measure.worker.messages import Effort, Limits

if TYPE_CHECKING:
    from jumar.tune.engines.base import Precision
    from jumar.tune.search.precision.request.files import PrecisionFile

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
            raise UsageError(f"--job-type must be 1 (subgraphs), 2 (operators) or 4 (gradients); got {self.job_type}.")
        if not 0 <= self.min_gain < 10:
            raise UsageError(f"--min-gain must be from 0 % to 1000 %; got {self.min_gain:.0%}. Try --min-gain 2%.")
        if self.time_budget_s is not None and self.time_budget_s <= 0:
            raise UsageError(f"--time-budget must be more than nothing; got {self.time_budget_s:g} s. Try 2m.")
        if self.max_trials is not None and self.max_trials < 1:
            raise UsageError(f"--trials must be 1 or more; got {self.max_trials}. Leave it out for no limit.")

    def left_s(self, elapsed_s: float) -> float | None:
        """Return how much of the time budget is left after so many seconds, not below 0; None without a budget."""
        return None if self.time_budget_s is None else max(0.0, self.time_budget_s - elapsed_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What is searched for a graph."""

    is_uneven: bool = False
    """Uneven splits of the batch too (`--Fnonhomo_split`)."""
    is_deep: bool = False
    """Everything for more leaders: several times the measurements (`--Fdeeper_opat`)."""
    can_cut: bool = True
    """Plans of several regions too."""
    keeps_layout: bool = False
    """No engine may be told to compute in another layout."""
    precision: Precision = "fp32"
    error_budget: float | None = None
    """As `Trial.error_budget`."""
    engines: Sequence[str] | None = None
    """Names of the engines to try; None: all."""


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


KEEP, AUTO = "keep", "auto"
DEFAULT_BUDGET = 1e-2
ERROR_BUDGET = "JUMAR_ERROR_BUDGET"
"""Environment variable: the error that a tuned model may have where the bank's plans are applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionOptions:
    """Raises UsageError, when built, for a value outside its range."""

    precision: str = KEEP
    """`keep`: as the model says; `auto`: search; else a precision file, whose list is measured."""
    budget: float = DEFAULT_BUDGET
    """Greatest allowed error: of every output, relative to the reference's greatest value, or as the metric says."""
    metric: str = ""
    """`package.module:callable` or `file.py:callable` of (outputs, reference_outputs); empty: the outputs' own."""
    content: PrecisionFile | None = None
    """What the precision file says, once it was read (`jumar.tune.search.precision.request.files.with_file_read`)."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.budget) and self.budget > 0):
            raise UsageError(f"--budget must be an error above 0, such as 1e-2; got {self.budget:g}.")
        if self.metric and not re.fullmatch(r"(.+\.py|[\w.]+):[\w.]+", self.metric):
            raise UsageError(f"--metric must be module:callable or file.py:callable; got {self.metric!r}.")
        if self.precision not in {KEEP, AUTO} and not Path(self.precision).is_file():
            raise UsageError(f"--precision must be keep, auto or a precision file; {self.precision} is no file.")

    @property
    def is_asked(self) -> bool:
        """Whether there is anything to do."""
        return self.precision != KEEP

    @property
    def file(self) -> Path | None:
        """The precision file, when one was given."""
        return Path(self.precision) if self.precision not in {KEEP, AUTO} else None


def parse_budget(text: str) -> float:
    """Return the number in `1e-2` or `1%`. Raises UsageError for anything else."""
    return parse_error(text, "--budget")


def parse_error(text: str, name: str = ERROR_BUDGET) -> float:
    """Return the error in `1e-2` or `1%`, above 0. Raises UsageError, which names the setting, for anything else."""
    try:
        error = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError as wrong:
        raise UsageError(f'"{name} {text}" must be an error such as 1e-2 or 1%.') from wrong
    if not (math.isfinite(error) and error > 0):
        raise UsageError(f"{name} must be an error above 0, such as 1e-2; got {text}.")
    return error
