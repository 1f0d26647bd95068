"""Tables of operators: those that differ, and those that one run alone has."""

from __future__ import annotations

from jumar.accuracy import Comparison, OperatorDiff
from jumar.report.page import Cell, Column, Section, Table

MAX_OPERATORS = 400


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
