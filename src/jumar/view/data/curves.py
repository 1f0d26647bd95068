"""Curves of a run by step: loss, and norms of gradients and parameters, from its history, else from its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from jumar.recording.history.model import HistoryStep
from jumar.recording.history.reader import History
from jumar.view.data.rows import RowTable

What = Literal["loss", "gradient", "parameter"]
WHAT: dict[What, str] = {"loss": "Loss", "gradient": "Norm of the gradients", "parameter": "Norm of the parameters"}
MOST_POINTS = 1500
"""Points of one curve. Of more, each group of steps gives its least and its greatest, so that no peak is lost."""
_ROWS: dict[What, tuple[str, Literal["inputs", "outputs"], str]] = {
    "loss": ("loss", "outputs", "mean"),
    "gradient": ("parameter", "inputs", "l2"),
    "parameter": ("parameter", "outputs", "l2"),
}
"""Kind of the rows that have a figure, and where it stands in them."""
_FIGURES = ("mean", "l2", "num_nan", "num_inf")


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
    """Return the names of the trained parameters, in the order of the run."""
    history = History.open(path, rank)
    if history is not None and history.steps:
        places = history.read(history.steps[-1]).places
        return list(dict.fromkeys(place.name for place in places if place.role == "parameter"))
    rows = table.figures("parameter", "outputs", _FIGURES, rank)
    return list(dict.fromkeys(_full(module, name) for _, module, name, _ in rows))


def _full(module: str, name: str) -> str:
    return f"{module}.{name}" if module else name


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
    kind, side, figure = _ROWS[what]
    values: dict[int, list[float]] = {}
    for step, module, own, figures in table.figures(kind, side, _FIGURES, rank):
        if name in ("", _full(module, own)) and (value := _value(figures, figure)) is not None:
            values.setdefault(step, []).append(value)
    if what == "loss":
        return [(step, sum(those) / len(those)) for step, those in values.items()]
    return [(step, math.sqrt(sum(value * value for value in those))) for step, those in values.items()]


def _value(figures: dict[str, Any], figure: str) -> float | None:
    """Return a figure, or NaN or Inf where the tensor has such elements, which the figure leaves out."""
    if figures.get("num_nan"):
        return math.nan
    if figures.get("num_inf"):
        return math.inf
    value = figures.get(figure)
    return None if value is None else float(value)


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
