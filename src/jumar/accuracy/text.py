"""The summary for the terminal: at most 15 lines, the answer first."""

from __future__ import annotations

import textwrap
from typing import get_args

from jumar.accuracy.results import Comparison, LossPair, OperatorStatus, RunSummary
from jumar.accuracy.words import number
from jumar.findings import Severity
from jumar.words import counted

MAX_LINES = 15
WIDTH = 110


def summary_text(comparison: Comparison) -> str:
    """Return the summary: the answer, the figures behind it, what to do, what was and was not compared."""
    lines = [
        *_wrapped(comparison.headline, max_lines=3),
        *_decisive(comparison),
        *_losses(comparison),
        *_coverage(comparison),
        f"  reference  {_run(comparison.reference)}",
        f"  target     {_run(comparison.target)}",
    ]
    return "\n".join(lines[:MAX_LINES])


def _wrapped(text: str, indent: str = "", max_lines: int = 2) -> list[str]:
    lines = textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False)
    return lines if len(lines) <= max_lines else [*lines[: max_lines - 1], f"{lines[max_lines - 1]} …"]


def _decisive(comparison: Comparison) -> list[str]:
    """Return the sentence and the action of the finding that decides, and the next most severe one."""
    lines: list[str] = []
    shown = [finding for finding in comparison.findings if finding.severity >= Severity.ERROR][:2]
    for finding in shown:
        if finding.message not in comparison.headline:
            lines += _wrapped(f"{finding.code} {finding.message}", "  ", max_lines=3 if not lines else 2)
    if shown and shown[0].action:
        lines += _wrapped(f"next: {shown[0].action}", "  ")
    return lines


def _losses(comparison: Comparison) -> list[str]:
    pairs = [pair for pair in comparison.losses if pair.reference is not None and pair.target is not None]
    if not pairs:
        return []
    shown = pairs if len(pairs) <= 3 else [pairs[0], pairs[1], pairs[-1]]
    return ["  losses     " + ", ".join(_loss(pair) for pair in shown)]


def _loss(pair: LossPair) -> str:
    error = f" ({number(pair.error, 2)})" if pair.error is not None else ""
    return f"step {pair.step}: {number(pair.reference, 6)} / {number(pair.target, 6)}{error}"


def _coverage(comparison: Comparison) -> list[str]:
    counts = comparison.num_operators
    if not counts:
        return []
    parts = [f"{counts[status]:,} {status}" for status in get_args(OperatorStatus) if counts.get(status)]
    alone = len(comparison.unmatched_reference) + len(comparison.unmatched_target)
    if alone:
        parts.append(f"{counted(alone, 'call')} without a partner")
    kind = "whole tensors" if comparison.evidence == "tensors" else f"{comparison.evidence}: errors are lower bounds"
    steps = counted(len(set(comparison.steps)), "step")
    lines = _wrapped(f"compared   {', '.join(parts)} in {steps} ({kind})", "  ")
    if comparison.notes:
        lines += _wrapped(f"not all    {comparison.notes[0]}" + ("; …" if len(comparison.notes) > 1 else ""), "  ", 2)
    return lines


def _run(run: RunSummary) -> str:
    command = " ".join(run.command)
    return f"{run.path} · {run.device or 'device not recorded'}{f' · {command}' if command else ''}"[: WIDTH - 13]
