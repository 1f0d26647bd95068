"""Sentences about replayed operators."""

from __future__ import annotations

import math

from jumar.comparison.model import words
from jumar.comparison.model.words import multiple, number
from jumar.comparison.replay.results import Replayed
from jumar.recording import CallRow


def place(row: CallRow) -> str:
    """Return `blocks.3.ln1 (LayerNorm), forward of step 0, model.py:41`."""
    return words.place(row, nowhere="no module")


def figures(replayed: Replayed) -> str:
    """Return the three numbers of an operator in words."""
    worst = replayed.own.worst if replayed.own is not None else None
    if worst is None:
        return replayed.note
    if math.isinf(worst.error):
        own = f"{worst.num_nonfinite_differs:,} elements are NaN or Inf where the exact result is not, or otherwise"
        own = "finite where the exact result overflows (saturated)" if worst.saturated else own
    elif worst.ulps == 0 and worst.error > 0:
        own = f"{worst.num_different:,} of {worst.num_elements:,} elements are wrong"
    else:
        own = f"own error {number(worst.error)}, {number(worst.ulps)} units in the last place of {worst.dtype}"
    if worst.excess > 1.0 and not math.isinf(worst.error):
        beyond = multiple(worst.excess) if worst.tolerance else "where none is allowed,"
        own += f" and {beyond} what rounding explains" if worst.tolerance else f", {beyond} it being exact"
    parts = [own]
    if replayed.reference_error is not None:
        parts.append(f"the reference's own error is {number(replayed.reference_error)}")
    if replayed.inherited is not None:
        parts.append(f"inherited {number(replayed.inherited)}")
    return "; ".join(parts)
