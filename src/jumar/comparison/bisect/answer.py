"""Draws the answer from the trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jumar.base.text import listing
from jumar.comparison.bisect.results import Bisection, Trial
from jumar.comparison.bisect.rules import causal_operators
from jumar.comparison.bisect.units import How, Unit
from jumar.comparison.model.words import number

HOW = {"float32": "in float32 on the CPU", "cpu": "on the CPU", "float64": "in float64 on the CPU"}
MAX_NAMED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the runs showed."""

    how: How
    units: tuple[Unit, ...]
    """The set the search ended with."""
    best: Trial | None
    """The run with this set switched; None when there was no gap to close."""
    whole: Trial | None
    """The run with all units switched."""
    reference: Mapping[int, float]
    before: Mapping[int, float]
    gap: float
    num_units: int
    num_runs: int
    minimal: bool
    checked: bool
    """A command judged the runs, not their losses."""


def conclude(found: Evidence) -> Bisection:
    """Return the bisection with its one-sentence answer and its finding."""
    best, whole = found.best, found.whole
    closed, by_all = (best.closed if best else 0.0), (whole.closed if whole else 0.0)
    gap = 1.0 if found.checked else found.gap
    bisection = Bisection(
        headline=_headline(found, closed, by_all) if best else _no_gap(found.before),
        how=found.how,
        units=found.units if closed > 0 and by_all > 0 else (),
        closed=closed,
        closed_by_all=by_all,
        gap_before=gap,
        gap_after=gap * (1.0 - closed),
        reference_losses=dict(found.reference),
        losses_before=dict(found.before),
        losses_after=dict(best.losses) if best else {},
        num_units=found.num_units,
        num_runs=found.num_runs,
        is_minimal=found.minimal,
        notes=_notes(best, found.minimal),
    )
    return replace(bisection, findings=tuple(causal_operators.find(bisection)))


def _no_gap(before: Mapping[int, float]) -> str:
    if not before:
        return "No loss was recorded: the script calls backward() on no loss in these steps. Use --check."
    return f"There is no loss gap: the losses of {len(before)} steps are equal."


def _headline(found: Evidence, closed: float, by_all: float) -> str:
    everything = f"all {found.num_units} operators that can be switched"
    what = named(found.units) if len(found.units) < found.num_units else everything
    if found.checked:
        passes = "makes the check pass" if closed > 0 else "does not make the check pass"
        return f"Running {what} {HOW[found.how]} {passes}."
    sentence = f"Running {what} {HOW[found.how]} closes {max(closed, 0.0):.0%} of the loss gap of {number(found.gap)}"
    return f"{sentence}." if by_all > 0 else f"{sentence}: the cause is not in how operators are calculated."


def named(units: Sequence[Unit]) -> str:
    """Return the units in words: `aten::addmm of blocks.3.fc1`, grouped where there are many."""
    if len(units) <= MAX_NAMED:
        return " and ".join(map(str, units))
    operators = list(dict.fromkeys(unit.operator for unit in units))
    modules = list(dict.fromkeys(unit.module_path for unit in units))
    return f"{listing(operators, MAX_NAMED)} of {len(modules)} modules"


def _notes(best: Trial | None, minimal: bool) -> tuple[str, ...]:
    notes = []
    if not minimal:
        notes.append("the search was ended by --max-runs: a smaller set may do as well; run again to go on")
    if best is not None and best.failed:
        notes.append(f"not switched: {'; '.join(best.failed[:3])}")
    if best is not None and not best.switched:
        notes.append("no call was switched: the operators did not run in the steps that were looked at")
    return tuple(notes)
