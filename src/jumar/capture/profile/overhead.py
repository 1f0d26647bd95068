"""What the profiler costs: `overhead` compares steps in its window with steps of the same run outside of it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jumar.capture.profile.plan import NUM_PLAIN, Phase


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long a step took, without what Jumar did at its border."""

    step: int
    phase: Phase
    duration_ms: float
    is_usual: bool = True
    """False for a step in which something was compiled, the model was evaluated, or another profiler ran."""


def overhead(times: Iterable[StepTime]) -> dict[str, Any]:
    """Return medians and ranges of plain and traced steps in milliseconds, and `ratio`, the quotient of the medians.

    Plain are up to `NUM_PLAIN` steps before the warm-up and after the window each. Step 0 is none of them: work is done
    in it that is done once. `ratio` is None where there is no plain or no traced step. `is_within_noise` says that the
    median of the traced steps lies in the range of the plain ones: the difference is then no measurement.
    """
    usual = [time for time in times if time.is_usual and time.step > 0]
    before = [time for time in usual if time.phase == "skip"][-NUM_PLAIN:]
    after = [time for time in usual if time.phase == "after"][:NUM_PLAIN]
    plain, traced = _summary([*before, *after]), _summary([time for time in usual if time.phase == "active"])
    found: dict[str, Any] = {"plain_ms": plain, "traced_ms": traced, "ratio": None, "is_within_noise": None}
    if plain is not None and traced is not None:
        found["ratio"] = round(traced["median"] / plain["median"], 3)
        found["is_within_noise"] = plain["num_steps"] > 1 and plain["least"] <= traced["median"] <= plain["most"]
    return found


def _summary(times: Sequence[StepTime]) -> dict[str, Any] | None:
    """Return median, range and number of steps; None without a step."""
    if not times:
        return None
    values = [time.duration_ms for time in times]
    return {
        "median": round(statistics.median(values), 4), "least": round(min(values), 4), "most": round(max(values), 4),
        "num_steps": len(values), "steps": [time.step for time in times],
    }  # fmt: skip
