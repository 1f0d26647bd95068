"""Curves of a run by step: loss, and norms of gradients and parameters, from its history, else from its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from jumar.recording.history.model import HistoryStep
from jumar.recording.history.reader import History
from jumar.view.data.rows import RowTable

What = Literal["loss", "gradient", "parameter"]
WHAT: dict[What, str] = {"loss": "Loss", "gradient": "Norm of the gradients", "parameter": "Norm of the parameters"}
MOST_POINTS = 1500
"""Points of one curve. Of more, each group of steps gives its least and its greatest, so that no peak is lost."""
_ROWS: dict[What, tuple[str, str]] = {
    "loss": ("loss", "outputs[1].mean"),
    "gradient": ("parameter", "inputs[1].l2"),
    "parameter": ("parameter", "outputs[1].l2"),
}
"""Kind of the rows that have a figure, and where it stands in them."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One run's values by step. `note` says what is missing."""

    steps: list[int]
    values: list[float]
    note: str = ""


def curve(path: Path, table: RowTable, what: What, name: str = "", rank: int = 0) -> Curve:
    """Return the curve of a recording; of one parameter where its `name` is given, else over all of them."""
    history = History.open(path, rank)
    if history is not None and history.steps:
        points = [(step.step, _of_history(step, what, name)) for step in history]
        note = f"{history.warning}." if history.warning else ""
    else:
        points, note = _of_rows(table, what, name, rank), ""
    known = _thinned([(step, value) for step, value in points if value is not None])
    if not known and not note:
        note = f"It holds no {WHAT[what].lower()}{f' of {name}' if name else ''}."
    return Curve([step for step, _ in known], [value for _, value in known], note)


def parameter_names(path: Path, table: RowTable, rank: int = 0) -> list[str]:
    """Return the names of the trained parameters, in the order of the run's last step."""
    history = History.open(path, rank)
    if history is not None and history.steps:
        places = history.read(history.steps[-1]).places
        return list(dict.fromkeys(place.name for place in places if place.role == "parameter"))
    rows = table.raw("module_path, name, min(seq)", " WHERE kind = 'parameter' GROUP BY 1, 2 ORDER BY 3", rank=rank)
    return [f"{path}.{name}" if path else name for path, name, _ in rows]


def _of_history(step: HistoryStep, what: What, name: str) -> float | None:
    if what == "loss":
        losses = step.losses
        return sum(losses) / len(losses) if losses else None
    norms = [
        float(values[0]) for place, values in zip(step.places, step.values, strict=True)
        if place.role == what and name in ("", place.name)
    ]  # fmt: skip
    return math.sqrt(sum(norm * norm for norm in norms)) if norms else None


def _of_rows(table: RowTable, what: What, name: str, rank: int) -> list[tuple[int, float | None]]:
    kind, value = _ROWS[what]
    combined = f"avg({value})" if what == "loss" else f"sqrt(sum({value} * {value}))"
    side = value.partition(".")[0]
    broken = f"sum(coalesce({side}.num_nan, 0)), sum(coalesce({side}.num_inf, 0))"
    path = "CASE WHEN module_path = '' THEN name ELSE module_path || '.' || name END"
    where = f" WHERE kind = '{kind}'{f' AND {path} = ?' if name else ''}"
    rows = table.raw(
        f"step, {combined}, {broken}", f"{where} GROUP BY step ORDER BY step", [name] if name else [], rank
    )
    return [
        (step, math.nan if nan else math.inf if inf and what == "loss" else value) for step, value, nan, inf in rows
    ]


def _thinned(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    if len(points) <= MOST_POINTS:
        return points
    kept: list[tuple[int, float]] = []
    for group in np.array_split(np.arange(len(points)), MOST_POINTS // 2):
        those = [points[index] for index in group]
        ends = {min(those, key=_place), max(those, key=_place), *(p for p in those if not math.isfinite(p[1]))}
        kept += sorted(ends)
    return kept


def _place(point: tuple[int, float]) -> float:
    return point[1] if not math.isnan(point[1]) else math.inf
