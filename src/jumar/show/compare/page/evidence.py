"""The evidence of a comparison: operators, modules and losses of both runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from jumar.base.text.digits import Cell
from jumar.comparison import Comparison, LossPair, OperatorDiff
from jumar.comparison.diagnosis import Diagnosis, StepCurve
from jumar.show.blocks.page import Block, Column, LineChart, Section, Series, Table
from jumar.show.blocks.pictures import Outline, OutlineEntry
from jumar.show.compare.page.drift import drift_charts

MAX_OPERATORS = 400
MAX_LOSSES = 60
"""Losses in the table; the chart has all."""


def operators(comparison: Comparison) -> Section | None:
    """Return the operators that differ, or, where none does, those with a difference within rounding."""
    worth = [diff for diff in comparison.operators if diff.status not in {"agree", "not-compared"}]
    shown = (worth or [diff for diff in comparison.operators if diff.error])[:MAX_OPERATORS]
    if not shown:
        return None
    several = len({diff.step for diff in shown}) > 1
    called = any(diff.arguments for diff in shown)
    columns = [
        *([Column(title="step", number=True)] if several else []),
        Column(title="phase"),
        Column(title="module", code=True),
        Column(title="operator", code=True),
        Column(title="status"),
        Column(title="error" if comparison.evidence == "tensors" else "error, at least", number=True),
        Column(title="tolerance", number=True),
        Column(title="inputs' error", number=True),
        *([Column(title="other arguments")] if called else []),
        Column(title="source", code=True),
    ]
    marked = [row for row, diff in enumerate(shown) if diff is comparison.first_divergence]
    title = "Operators that differ" if worth else "Operators with a difference within rounding"
    if len(worth) > len(shown):
        title += f" (the first {len(shown):,} of {len(worth):,})"
    table = Table(columns=columns, rows=[_row(diff, several=several, called=called) for diff in shown], marked=marked)
    return Section(title=title, blocks=[table], collapsed=comparison.status == "agree")


def _row(diff: OperatorDiff, *, several: bool, called: bool) -> list[Cell]:
    return [
        *([diff.step] if several else []),
        diff.phase,
        diff.module_path,
        diff.name,
        diff.status,
        diff.error,
        diff.tolerance,
        diff.inherited,
        *(["; ".join(map(str, diff.arguments))] if called else []),
        diff.source,
    ]


def unmatched(comparison: Comparison) -> Section | None:
    """Return the calls without a partner, views and copies left out."""
    sides = (("reference", comparison.unmatched_reference), ("target", comparison.unmatched_target))
    calls = [(side, call) for side, unmatched in sides for call in unmatched if not call.layout_only]
    if not calls:
        return None
    columns = [
        Column(title="only in"),
        Column(title="step", number=True),
        Column(title="phase"),
        Column(title="module", code=True),
        Column(title="operator", code=True),
        Column(title="source", code=True),
    ]
    rows: list[list[Cell]] = [
        [side, call.step, call.phase, call.module_path, call.name, call.source] for side, call in calls[:MAX_OPERATORS]
    ]
    return Section(title="Calls without a partner", blocks=[Table(columns=columns, rows=rows)], collapsed=True)


ROOT = "(root)"
PHASES = ("forward", "backward")


@dataclass(slots=True)
class _Module:
    """The greatest error and the counts of one module's operators."""

    error: float | None = None
    statuses: Counter[str] = field(default_factory=Counter)
    marked: bool = False


def modules(comparison: Comparison) -> Section | None:
    """Return one tree a phase in which anything differs."""
    blocks: list[Block] = []
    for phase in PHASES:
        found = _by_module(comparison, phase)
        if any(module.error for module in found.values()):
            entries = [_entry(path, module) for path, module in found.items()]
            blocks.append(Outline(title=f"Greatest error by module, {phase}", unit="relative error", entries=entries))
    return Section(title="Error by module", blocks=blocks, collapsed=comparison.status == "agree") if blocks else None


def _by_module(comparison: Comparison, phase: str) -> dict[str, _Module]:
    found: dict[str, _Module] = {}
    first = comparison.first_divergence
    for diff in _of_phase(comparison.operators, phase):
        module = found.setdefault(diff.module_path or ROOT, _Module())
        module.statuses[diff.status] += 1
        module.marked |= diff is first or (first is not None and _same(diff, first))
        if diff.error is not None and diff.status != "not-compared":
            module.error = max(module.error or 0.0, diff.error, key=lambda e: math.inf if math.isnan(e) else e)
    return found


def _of_phase(operators: Sequence[OperatorDiff], phase: str) -> list[OperatorDiff]:
    return [diff for diff in operators if diff.phase == phase and diff.kind in ("op", "module")]


def _same(one: OperatorDiff, other: OperatorDiff) -> bool:
    return (one.step, one.rank, one.reference_seq, one.target_seq) == (
        other.step,
        other.rank,
        other.reference_seq,
        other.target_seq,
    )


def _entry(path: str, module: _Module) -> OutlineEntry:
    parts = [f"{module.statuses[status]} {status}" for status in ("diverge", "random") if module.statuses[status]]
    words = "the runs part here" if module.marked else ", ".join(parts)
    return OutlineEntry(name=path, value=module.error, note=words, marked=module.marked)


def losses(comparison: Comparison, diagnosis: Diagnosis | None) -> Section | None:
    """Return the curves of both runs."""
    curves = diagnosis.curves if diagnosis is not None else ()
    blocks = [*_losses(comparison.losses), *drift_charts(comparison.drifts), *_gradients(curves)]
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
    listed = pairs if len(pairs) <= MAX_LOSSES else _some(pairs)
    rows = [[pair.step, pair.reference, pair.target, pair.error, pair.tolerance] for pair in listed]
    marked = [row for row, pair in enumerate(listed) if pair.agrees is False]
    table = Table(columns=columns, rows=rows, marked=marked)
    return [chart, table] if len(pairs) > 1 else [table]


def _some(pairs: Sequence[LossPair]) -> list[LossPair]:
    """Return losses spread evenly over the steps, and those around the first disagreement."""
    spread = {round(i * (len(pairs) - 1) / (MAX_LOSSES // 2 - 1)) for i in range(MAX_LOSSES // 2)}
    first = next((row for row, pair in enumerate(pairs) if pair.agrees is False), None)
    around = set() if first is None else set(range(max(0, first - 3), min(len(pairs), first + MAX_LOSSES // 4)))
    return [pairs[row] for row in sorted(spread | around)]


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
