"""What a search for precision is asked to do."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import UsageError

if TYPE_CHECKING:
    from jumar.tune.search.precision.request.files import PrecisionFile

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
