"""The origin of NaN or Inf in the target, asked of the search for overflows."""

from __future__ import annotations

import math

from jumar.accuracy.diagnosis.rows import Both
from jumar.accuracy.results import Comparison
from jumar.errors import JumarError
from jumar.findings import Finding, Severity


def origin_of(both: Both, comparison: Comparison, notes: list[str]) -> Finding | None:
    """Return the finding of the first operator whose finite inputs give NaN or Inf; None where there is none."""
    first = comparison.first_divergence
    at_first = first is not None and any(tensor.nonfinite_differs for tensor in first.outputs)
    in_loss = any(pair.target is not None and not math.isfinite(pair.target) for pair in comparison.losses)
    if not at_first and not in_loss:
        return None
    from jumar.accuracy.overflow import find_overflow

    try:
        report = find_overflow(both.target)
    except JumarError as error:
        notes.append(f"the origin of NaN or Inf was not searched: {error}")
        return None
    found = [finding for finding in report.findings if finding.severity >= Severity.WARNING]
    return found[0] if found else None
