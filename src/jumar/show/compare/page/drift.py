"""Charts of how far two runs are apart over all their steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jumar.comparison.model.drift import Drift
from jumar.show.blocks.page import Block, LineChart, Series

MAX_POINTS = 400
"""Steps of a line; of more, each point is the greatest of some neighbours."""
MAX_LINES = 8


def drift_charts(drifts: Sequence[Drift]) -> list[Block]:
    """Return the chart of the first rank whose runs drift apart, else of the first rank; none for equal runs."""
    drift = next((one for one in drifts if one.onset is not None), drifts[0] if drifts else None)
    if drift is None or len(drift.points) < 2:
        return []
    names = dict.fromkeys(name for point in drift.points for name in point.distances)
    lines = {name: [point.distances.get(name) for point in drift.points] for name in names}
    seen = [name for name, values in lines.items() if any(values)]
    if not seen:
        return []
    size = math.ceil(len(drift.points) / MAX_POINTS)
    steps = [point.step for point in drift.points][::size]
    series = [Series(name=name, x=steps, y=_greatest(lines[name], size)) for name in seen[:MAX_LINES]]
    began = f", from step {drift.onset.step} on" if drift.onset is not None else ""
    return [
        LineChart(
            title=f"How far the runs are apart after each step{began}",
            x_label="step",
            y_label="relative to the norm",
            log_y=True,
            series=series,
        )
    ]


def _greatest(values: Sequence[float | None], size: int) -> list[float | None]:
    """Return the greatest value of each `size` neighbours; None for 0 and for what is not finite."""
    found: list[float | None] = []
    for start in range(0, len(values), size):
        known = [value for value in values[start : start + size] if value and math.isfinite(value)]
        found.append(max(known, default=None))
    return found
