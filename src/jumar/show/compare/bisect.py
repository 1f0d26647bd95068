"""The result of a bisection as text for the terminal."""

from __future__ import annotations

from jumar.comparison.bisect.results import Bisection
from jumar.comparison.model.words import number
from jumar.show.terminal.tell import told_lines

MAX_SHOWN = 8


def summary_text(bisection: Bisection) -> str:
    """Return the answer, the losses before and after, and the set of units."""
    lines = [bisection.headline]
    if len(bisection.units) > 1:
        shown = [f"    {unit}" for unit in bisection.units[:MAX_SHOWN]]
        more = len(bisection.units) - MAX_SHOWN
        lines += [*shown, *([f"    and {more} more"] if more > 0 else [])]
    steps = sorted(bisection.losses_before)[:4]
    if bisection.reference_losses and steps:
        lines.append(f"  {'step':>6}{'reference':>14}{'before':>14}{'after':>14}")
        for step in steps:
            row = (bisection.reference_losses, bisection.losses_before, bisection.losses_after)
            lines.append(f"  {step:>6}" + "".join(f"{number(losses.get(step), 8):>14}" for losses in row))
        gaps = f"{number(bisection.gap_before)} before, {number(bisection.gap_after)} after"
        lines.append(
            f"  gap        {gaps}; with all {bisection.num_units} switched {bisection.closed_by_all:.0%} closed"
        )
    lines.append(f"  runs       {bisection.num_runs} trials over {bisection.num_units} operators in modules")
    lines += [f"  note       {note}" for note in bisection.notes]
    return told_lines("\n".join(lines))
