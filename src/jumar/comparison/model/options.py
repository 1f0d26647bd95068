"""`CompareOptions`: the options of a comparison."""

from __future__ import annotations

from dataclasses import dataclass

from jumar.base.errors import UsageError
from jumar.comparison.model.renames import Renames


@dataclass(frozen=True, kw_only=True, slots=True)
class CompareOptions:
    """Settings of `compare`. Raises UsageError for a setting without a meaning."""

    tolerance_scale: float = 1.0
    """Factor on every tolerance; 1.0 is the documented one."""
    steps: tuple[int, int] | None = None
    """First step and the step after the last; None for all steps that both recordings have."""
    all_steps: bool = False
    """Go on after the step with the first divergence."""
    max_operators: int = 20_000
    """Operator comparisons kept in the result; those that agree are dropped first, counts stay exact."""

    renames: Renames | None = None
    """Names that differ between the two programs (see `jumar.comparison.model.renames.read_renames`)."""
    offset: int | None = None
    """The target's step that belongs to a step of the reference, minus that step; None to find out."""
    rank_pairs: tuple[tuple[int, int], ...] = ()
    """Ranks to compare, the reference's and the target's; empty for equal ones. Of one recording given twice,
    ranks that must agree (parameters, gradients after their aggregation)."""

    def __post_init__(self) -> None:
        if not self.tolerance_scale > 0:
            raise UsageError(f"tolerance_scale must be greater than 0; got {self.tolerance_scale}. Try 1.0.")
        if any(rank < 0 for pair in self.rank_pairs for rank in pair):
            raise UsageError(f"ranks count from 0; got {self.rank_pairs}. Try ((0, 1),).")
        if self.max_operators < 1:
            raise UsageError(f"max_operators must be at least 1; got {self.max_operators}. Try 20000.")
