"""Losses and gradient norms of both runs, step by step."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.accuracy import Comparison, LossPair
from jumar.accuracy.diagnosis import Diagnosis, StepCurve
from jumar.report.page import Block, Column, LineChart, Section, Series, Table


def losses(comparison: Comparison, diagnosis: Diagnosis | None) -> Section | None:
    """Return the curves of both runs."""
    blocks = [*_losses(comparison.losses), *_gradients(diagnosis.curves if diagnosis is not None else ())]
    return Section(title="Losses", blocks=blocks) if blocks else None


def _losses(all_pairs: Sequence[LossPair]) -> list[Block]:
    pairs = [pair for pair in all_pairs if pair.rank == all_pairs[0].rank]
    if not pairs:
        return []
    steps = [pair.step for pair in pairs]
    both = [pair.reference for pair in pairs], [pair.target for pair in pairs]
    chart = _both_runs("Loss by step", "loss", steps, *both)
    columns = [
        Column(title="step", number=True),
        Column(title="reference", number=True, digits=7),
        Column(title="target", number=True, digits=7),
        Column(title="relative difference", number=True),
        Column(title="tolerance", number=True),
    ]
    rows = [[pair.step, pair.reference, pair.target, pair.error, pair.tolerance] for pair in pairs]
    marked = [row for row, pair in enumerate(pairs) if pair.agrees is False]
    table = Table(columns=columns, rows=rows, marked=marked)
    return [chart, table] if len(pairs) > 1 else [table]


def _both_runs(
    title: str, y_label: str, steps: Sequence[int], reference: Sequence[float | None], target: Sequence[float | None]
) -> LineChart:
    series = [Series(name="reference", x=steps, y=reference), Series(name="target", x=steps, y=target)]
    return LineChart(title=title, x_label="step", y_label=y_label, series=series)


def _gradients(curves: Sequence[StepCurve]) -> list[Block]:
    points = [curve for curve in curves if curve.reference_norm is not None or curve.target_norm is not None]
    if not points:
        return []
    steps = [point.step for point in points]
    both = [point.reference_norm for point in points], [point.target_norm for point in points]
    norms = _both_runs("Norm of all gradients by step", "L2 norm", steps, *both)
    errors = LineChart(
        title="Difference of the runs by step",
        x_label="step",
        y_label="relative to the norm of all",
        log_y=True,
        series=[
            Series(name="gradients", x=steps, y=[point.gradient_error for point in points]),
            Series(name="parameters after the step", x=steps, y=[point.parameter_error for point in points]),
        ],
    )
    differ = any(point.gradient_error or point.parameter_error for point in points)
    return [norms, errors] if differ else [norms]
