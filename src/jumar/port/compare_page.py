"""The page of `jumar compare`: the answer, what to do, then losses, modules and operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jumar import __version__
from jumar.accuracy import Comparison, OperatorDiff, RunSummary, Spot, TensorDiff
from jumar.accuracy.rules import RULES
from jumar.findings import Finding, Severity
from jumar.report.page import (
    Action,
    Block,
    Cell,
    Column,
    FindingList,
    Heat,
    KeyValues,
    LineChart,
    Page,
    Section,
    Series,
    Status,
    Table,
    Text,
    Verdict,
)

MAX_ACTIONS = 4
MAX_OPERATORS = 400
TITLES = {rule.code: rule.summary for rule in RULES}
STATUS: dict[str, Status] = {"agree": "fine", "incomparable": "attention", "diverge": "failed"}

ABOUT = {
    "statistics": "Only statistics were recorded: every error is a lower bound (marked ≥), and cosine and greatest "
    "difference are not known. Statistics do not show elements that changed places. Record with `--values tensors` "
    "for exact figures.",
    "tensors": "Errors are exact, from whole tensors: the greater of the L2 and the greatest elementwise difference, "
    "each relative to the scale of the calculation.",
    "none": "No values were recorded: nothing is known about the operators' results.",
}


def compare_page(comparison: Comparison) -> Page:
    """Return the page for `comparison`; sections without content are left out."""
    sections = [
        _losses(comparison),
        _divergence(comparison),
        _findings(comparison),
        _modules(comparison),
        _operators(comparison),
        _unmatched(comparison),
        _about(comparison),
    ]
    return Page(
        title="Accuracy of two runs",
        verdict=Verdict(status=STATUS[comparison.status], headline=comparison.headline, details=_details(comparison)),
        actions=_actions(comparison.findings),
        sections=[section for section in sections if section is not None],
        footer=f"Made by jumar {__version__}. {ABOUT[comparison.evidence].replace('`', '')}",
    )


def _details(comparison: Comparison) -> list[str]:
    counts = ", ".join(f"{count:,} {status}" for status, count in comparison.num_operators.items())
    details = [f"Operator calls compared in steps {_listed(comparison.steps)}: {counts}."] if counts else []
    decisive = comparison.findings[0].message if comparison.findings else ""
    if decisive and comparison.status != "agree" and decisive not in comparison.headline:
        details.insert(0, decisive)
    if comparison.evidence != "tensors":
        details.append(ABOUT[comparison.evidence].replace("`", ""))
    return details


def _listed(steps: Sequence[int]) -> str:
    ordered = sorted(set(steps))
    return ", ".join(map(str, ordered)) if len(ordered) <= 8 else f"{ordered[0]} to {ordered[-1]}"


def _actions(findings: Sequence[Finding]) -> list[Action]:
    worth = [finding for finding in findings if finding.action and finding.severity >= Severity.WARNING]
    return [
        Action(title=finding.action, detail=str(finding.where), command=f"jumar rule {finding.code}")
        for finding in worth[:MAX_ACTIONS]
    ]


def _losses(comparison: Comparison) -> Section | None:
    pairs = [pair for pair in comparison.losses if pair.rank == comparison.losses[0].rank]
    if not pairs:
        return None
    steps = [pair.step for pair in pairs]
    chart = LineChart(
        title="Loss by step",
        x_label="step",
        y_label="loss",
        series=[
            Series(name="reference", x=steps, y=[pair.reference for pair in pairs]),
            Series(name="target", x=steps, y=[pair.target for pair in pairs]),
        ],
    )
    columns = [
        Column(title="step", number=True),
        Column(title="reference", number=True, digits=7),
        Column(title="target", number=True, digits=7),
        Column(title="relative difference", number=True),
        Column(title="tolerance", number=True),
    ]
    rows = [[pair.step, pair.reference, pair.target, pair.error, pair.tolerance] for pair in pairs]
    marked = [row for row, pair in enumerate(pairs) if pair.agrees is False]
    return Section(title="Losses", blocks=[chart, Table(columns=columns, rows=rows, marked=marked)])


def _divergence(comparison: Comparison) -> Section | None:
    diff = comparison.first_divergence
    if diff is None:
        return None
    items: list[tuple[str, Cell]] = [
        ("operator", diff.name),
        ("module", f"{diff.module_path or '(none)'} {diff.module_type}".strip()),
        ("phase and step", f"{diff.phase}, step {diff.step}"),
        ("source", diff.source or "not recorded"),
        ("other arguments", "; ".join(map(str, diff.arguments)) or "none"),
        ("error", _bounded(diff)),
        ("tolerance", diff.tolerance),
        ("where the tolerance comes from", diff.tolerance_origin),
        ("error of its inputs", diff.inherited),
    ]
    if diff.note:
        items.append(("note", diff.note))
    blocks: list[Block] = [KeyValues(items=items), _tensors([*diff.inputs, *diff.outputs])]
    return Section(title="First divergence", blocks=blocks)


def _tensors(tensors: Sequence[TensorDiff]) -> Table:
    columns = [
        Column(title="tensor"),
        Column(title="shape"),
        Column(title="dtype"),
        Column(title="known from"),
        Column(title="error", number=True),
        Column(title="cosine", number=True, digits=7),
        Column(title="L2 relative error", number=True),
        Column(title="greatest absolute difference"),
        Column(title="greatest relative difference"),
        Column(title="NaN or Inf (reference / target)"),
    ]
    rows: list[list[Cell]] = [
        [
            tensor.name,
            "×".join(map(str, tensor.shape)) or "scalar",
            tensor.dtype if tensor.dtype == tensor.target_dtype else f"{tensor.dtype} / {tensor.target_dtype}",
            tensor.evidence,
            tensor.error,
            tensor.cosine if tensor.evidence == "tensors" else "not known",
            tensor.l2_relative if tensor.evidence == "tensors" else _at_least(tensor.l2_relative_at_least),
            _spot(tensor.max_abs) if tensor.evidence == "tensors" else _at_least(tensor.max_abs_at_least),
            _spot(tensor.max_relative) if tensor.evidence == "tensors" else "not known",
            f"{tensor.num_nonfinite} / {tensor.target_num_nonfinite}",
        ]
        for tensor in tensors
    ]
    return Table(title="Its tensors", columns=columns, rows=rows)


def _spot(spot: Spot | None) -> str:
    if spot is None:
        return "0"
    index = ", ".join(map(str, spot.index))
    return f"{spot.difference:.3g} at [{index}]: {spot.reference:.6g} / {spot.target:.6g}"


def _at_least(value: float | None) -> str:
    return "not known" if value is None else f"≥ {value:.3g}"


def _bounded(diff: OperatorDiff) -> str:
    if diff.error is None:
        return "not known"
    bound = "≥ " if diff.outputs and diff.outputs[0].evidence == "statistics" else ""
    return f"{bound}{diff.error:.3g}"


def _findings(comparison: Comparison) -> Section:
    found = FindingList(findings=comparison.findings, empty="No finding.", titles=TITLES)
    return Section(title="Accuracy findings", blocks=[found])


def _modules(comparison: Comparison) -> Section | None:
    """Return the module tree coloured by the greatest error of an operator in each module."""
    errors: dict[str, float | None] = {}
    for diff in comparison.operators:
        path = diff.module_path or "(root)"
        known = errors.setdefault(path, None)
        if diff.error is not None and math.isfinite(diff.error) and diff.phase == "forward":
            errors[path] = max(known or 0.0, diff.error)
    if not any(errors.values()):
        return None
    heat = Heat(title="Greatest error by module, forward", unit="relative error", values=list(errors.items()))
    return Section(title="Error by module", blocks=[heat])


def _operators(comparison: Comparison) -> Section | None:
    worth = [diff for diff in comparison.operators if diff.status not in {"agree", "not-compared"}]
    shown = (worth or [diff for diff in comparison.operators if diff.error])[:MAX_OPERATORS]
    if not shown:
        return None
    error = "error" if comparison.evidence == "tensors" else "error, at least"
    columns = [
        Column(title="step", number=True),
        Column(title="phase"),
        Column(title="module", code=True),
        Column(title="operator", code=True),
        Column(title="status"),
        Column(title=error, number=True),
        Column(title="tolerance", number=True),
        Column(title="error of inputs", number=True),
        Column(title="other arguments"),
        Column(title="source", code=True),
    ]
    rows: list[list[Cell]] = [
        [
            diff.step,
            diff.phase,
            diff.module_path,
            diff.name,
            diff.status,
            diff.error,
            diff.tolerance,
            diff.inherited,
            "; ".join(map(str, diff.arguments)),
            diff.source,
        ]
        for diff in shown
    ]
    marked = [row for row, diff in enumerate(shown) if diff is comparison.first_divergence]
    title = "Operators that differ" if worth else "Operators with a difference within rounding"
    if len(worth) > len(shown):
        title += f" (the first {len(shown):,} of {len(worth):,})"
    table = Table(columns=columns, rows=rows, marked=marked)
    return Section(title=title, blocks=[table], collapsed=comparison.status == "agree")


def _unmatched(comparison: Comparison) -> Section | None:
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


def _about(comparison: Comparison) -> Section:
    blocks: list[Block] = [
        KeyValues(title="reference", items=_facts(comparison.reference)),
        KeyValues(title="target", items=_facts(comparison.target)),
        Text(text=ABOUT[comparison.evidence]),
    ]
    if comparison.notes:
        blocks.append(Text(text="Not compared: " + "; ".join(comparison.notes) + "."))
    return Section(title="What was compared", blocks=blocks, collapsed=True)


def _facts(run: RunSummary) -> list[tuple[str, Cell]]:
    return [
        ("recording", run.path),
        ("device", run.device),
        ("command", " ".join(run.command)),
        ("torch", run.torch_version),
        ("values", run.values),
        ("steps", len(run.steps)),
        ("ranks", len(run.ranks)),
    ]
