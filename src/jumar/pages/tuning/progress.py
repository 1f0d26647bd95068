"""How the search went on over time, and where the time went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from jumar.report.page import BarChart, Block, LineChart, Section, Series, Text
from jumar.tune.history import Measurement

MOST_LINES = 6
_ROLES = {"screening": "screening candidates", "confirmation": "confirming the best", "build": "compiling in parallel"}
_SLOWEST = 10


def progress(history: Sequence[Measurement], wall_s: float) -> Section | None:
    """Return the section, or None when nothing was measured in this run."""
    new = [one for one in history if not one.reused]
    if not new:
        return None
    blocks: list[Block] = [*_chart(history), *_where(new, wall_s)]
    return Section(title="How the search went", blocks=blocks)


def best_so_far(measurements: Sequence[Measurement]) -> list[tuple[float, float]]:
    """Return (seconds, how many times as fast as at first) after each measurement that went that far.

    At first is the time of the first measurement's incumbent, the default; each time is a screening's or a
    confirmation's own, so the line is what the search saw, not what was proven.
    """
    timed = [one for one in measurements if one.before_us is not None and one.after_us is not None]
    if not timed or timed[0].before_us is None:
        return []
    first = best = timed[0].before_us
    line = []
    for one in timed:
        if one.after_us is not None and one.status == "measured":
            best = min(best, one.after_us)
            line.append((one.at_s, first / best))
    return line


def _chart(history: Sequence[Measurement]) -> list[Block]:
    names = defaultdict(list)
    for one in history:
        names[one.name].append(one)
    lines = [(name, line) for name, those in names.items() if len(line := best_so_far(those)) > 1]
    lines.sort(key=lambda pair: -pair[1][-1][1])
    if not lines:
        return []
    series = [
        Series(name=name, x=[round(at, 2) for at, _ in line], y=[ratio for _, ratio in line])
        for name, line in lines[:MOST_LINES]
    ]
    note = (
        "The best that was seen by each moment, over the default; screenings, so a little better than what is proven."
    )
    more = len(lines) - MOST_LINES
    if more > 0:
        note += f" The {MOST_LINES} with the greatest gains are drawn, {more} more are in the tables below."
    chart = LineChart(
        title="Speed-up seen so far", x_label="seconds since the start", y_label="times as fast", series=series
    )
    return [chart, Text(text=note)]


def _where(new: Sequence[Measurement], wall_s: float) -> list[Block]:
    roles: dict[str, float] = defaultdict(float)
    providers: dict[str, float] = defaultdict(float)
    lost: dict[str, float] = defaultdict(float)
    for one in new:
        roles[_ROLES[one.role]] += one.took_s
        providers[one.provider] += one.took_s
        if one.status not in {"measured", "built"}:
            lost[one.status] += one.took_s
    roles["everything else"] = max(0.0, wall_s - sum(roles.values()))
    slowest = sorted(new, key=lambda one: -one.took_s)[:_SLOWEST]
    charts = [
        BarChart(title="Where the time went", unit="s", bars=_sorted(roles)),
        BarChart(title="By who computes", unit="s", bars=_sorted(providers)),
    ]
    if lost:
        charts.append(BarChart(title="Spent on candidates that gave no measurement", unit="s", bars=_sorted(lost)))
    bars = [(f"{one.candidate} · {one.name}", one.took_s) for one in slowest]
    return [*charts, BarChart(title="The longest candidates", unit="s", bars=bars)]


def _sorted(times: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(times.items(), key=lambda pair: -pair[1])
