"""The summary of a comparison for the terminal: at most 15 lines, the answer first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from jumar.base.findings import Finding, Severity
from jumar.base.text import counted
from jumar.comparison.diagnosis.results import Diagnosis, StepCurve
from jumar.comparison.model.results import Comparison, LossPair, OperatorStatus, RunSummary
from jumar.comparison.model.words import number, told_once
from jumar.show.terminal.tell import told_lines, wrapped_lines

if TYPE_CHECKING:
    from jumar.comparison.diagnosis.second_pass import SecondPass

MAX_LINES = 15
WIDTH = 110
KINDS = {
    "tensors": "whole tensors",
    "sketches": "sketches: errors are estimates",
    "statistics": "statistics: errors are lower bounds",
    "none": "no values",
}

ENDS_EARLY = frozenset({"JM316"})
"""Findings that explain why nothing after a step was compared. They may be of any severity."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Lines that stay together; those of the greatest `rank` go first where there is no room."""

    rank: int
    lines: list[str]


def summary_text(
    comparison: Comparison, diagnosis: Diagnosis | None = None, second_pass: SecondPass | None = None
) -> str:
    """Return the summary: the answer, the figures behind it, what to do, what was and was not compared.

    Commands are never wrapped, so that they can be copied.
    """
    parts = [
        _Part(0, wrapped(comparison.headline, max_lines=3)),
        *_decisive(comparison),
        *_hypothesis(diagnosis),
        *_next(comparison, second_pass),
        _Part(4, _losses(comparison)),
        _Part(5, _gradients(diagnosis)),
        *_coverage(comparison),
        _Part(6, [f"  reference  {_run(comparison.reference)}", f"  target     {_run(comparison.target)}"]),
    ]
    return told_lines("\n".join(line for part in _fitting(parts) for line in part.lines))


def _fitting(parts: list[_Part]) -> list[_Part]:
    kept = [part for part in parts if part.lines]
    while sum(len(part.lines) for part in kept) > MAX_LINES:
        kept.remove(max(kept, key=lambda part: part.rank))
    return kept


def wrapped(text: str, indent: str = "", max_lines: int = 2) -> list[str]:
    """Return `text` in lines of at most `WIDTH`; what needs more than `max_lines` ends in an ellipsis."""
    lines = wrapped_lines(text, WIDTH, indent)
    return lines if len(lines) <= max_lines else [*lines[: max_lines - 1], f"{lines[max_lines - 1]} …"]


def _decisive(comparison: Comparison) -> list[_Part]:
    """Return the sentence of the finding that decides, and of the next most severe one."""
    parts: list[_Part] = []
    for finding in [finding for finding in comparison.findings if _decides(finding)][:2]:
        if finding.message not in comparison.headline:
            first = not parts
            text = f"{finding.code} {told_once(finding.message, comparison.headline)}"
            parts.append(_Part(1 if first else 8, wrapped(text, "  ", max_lines=3 if first else 2)))
    return parts


def _decides(finding: Finding) -> bool:
    return finding.severity >= Severity.ERROR or finding.code in ENDS_EARLY


def _hypothesis(diagnosis: Diagnosis | None) -> list[_Part]:
    best = next((one for one in diagnosis.suspicions if one.seen_in != "arguments"), None) if diagnosis else None
    if best is None:
        return []
    return [_Part(3, wrapped(f"{best.hypothesis.confidence}: {best.hypothesis.statement}", "  "))]


def _next(comparison: Comparison, second_pass: SecondPass | None) -> list[_Part]:
    deciding = next((f for f in comparison.findings if _decides(f)), None)
    parts = []
    by_values = second_pass is not None and deciding is not None and "--values tensors" in deciding.action
    if deciding is not None and deciding.action and not by_values:
        parts.append(_Part(2, wrapped(f"next: {deciding.action}", "  ")))
    first = comparison.first_divergence
    if second_pass is not None and not (first is not None and first.arguments):
        lines = ["  next: record the suspects' whole tensors on both sides, then compare the two new recordings:"]
        parts.append(_Part(7, [*lines, f"    {second_pass.reference}", f"    {second_pass.target}"]))
    return parts


def _losses(comparison: Comparison) -> list[str]:
    pairs = [pair for pair in comparison.losses if pair.reference is not None and pair.target is not None]
    if not pairs:
        return []
    shown = pairs if len(pairs) <= 3 else [pairs[0], pairs[1], pairs[-1]]
    return ["  losses     " + ", ".join(_loss(pair) for pair in shown)]


def _loss(pair: LossPair) -> str:
    error = f" ({number(pair.error, 2)})" if pair.error is not None else ""
    return f"step {pair.step}: {number(pair.reference, 6)} / {number(pair.target, 6)}{error}"


def _gradients(diagnosis: Diagnosis | None) -> list[str]:
    points = [one for one in diagnosis.curves if one.gradient_error is not None] if diagnosis is not None else []
    if not points:
        return []
    shown = points if len(points) <= 3 else [points[0], points[1], points[-1]]
    return ["  gradients  " + ", ".join(_gradient(one) for one in shown)]


def _gradient(point: StepCurve) -> str:
    norms = f"{number(point.reference_norm, 5)} / {number(point.target_norm, 5)}"
    return f"step {point.step}: {norms} ({number(point.gradient_error, 2)})"


def _coverage(comparison: Comparison) -> list[_Part]:
    counts = comparison.num_operators
    if not counts:
        return []
    parts = [f"{counts[status]:,} {status}" for status in get_args(OperatorStatus) if counts.get(status)]
    alone = len(comparison.unmatched_reference) + len(comparison.unmatched_target)
    if alone:
        parts.append(f"{counted(alone, 'call')} without a partner")
    steps = counted(len(set(comparison.steps)), "step")
    found = [_Part(4, wrapped(f"compared   {', '.join(parts)} in {steps} ({KINDS[comparison.evidence]})", "  "))]
    # A pattern for one run's names matches nothing in the other: worth the least of all that was left out.
    ordered = sorted(comparison.notes, key=lambda note: "of tensors-of" in note)
    if ordered:
        notes = f"not all    {ordered[0]}" + ("; …" if len(ordered) > 1 else "")
        found.append(_Part(5, wrapped(notes, "  ", 2)))
    return found


def _run(run: RunSummary) -> str:
    command = " ".join(run.command)
    return f"{run.path} · {run.device or 'device not recorded'}{f' · {command}' if command else ''}"[: WIDTH - 13]
