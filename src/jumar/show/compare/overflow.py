"""The summary of an overflow report for the terminal: at most 15 lines, the answer first; the frames as a table."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.base.findings import Finding, Severity
from jumar.base.text import counted
from jumar.comparison.model.words import number
from jumar.comparison.overflow.results import Frame, OverflowReport
from jumar.show.compare.summary import MAX_LINES, WIDTH, wrapped
from jumar.show.terminal.tell import told_lines

SHOWN_FRAMES = 4


def overflow_text(report: OverflowReport) -> str:
    """Return the summary: the answer, its reasons, what to do, the last operators before it, and the coverage."""
    lines = [*wrapped(report.headline, "", 3), *_reasons(report)]
    if report.frames:
        lines.append("  before it  (greatest absolute value of inputs -> outputs)")
        lines += [f"    {_frame(frame)}"[:WIDTH] for frame in report.frames[-SHOWN_FRAMES:]]
    tail = _coverage(report)
    return "\n".join(map(told_lines, [*lines[: MAX_LINES - len(tail)], *tail]))


def frames_text(frames: Sequence[Frame]) -> str:
    """Return all frames, one a line, the origin last."""
    return "\n".join(f"{frame.seq:6d}  {_frame(frame)}" for frame in frames)


def _reasons(report: OverflowReport) -> list[str]:
    shown = [f for f in report.findings if f.severity >= Severity.WARNING and f.code != "JM335"][:2]
    lines: list[str] = []
    for finding in shown:
        if finding.message not in report.headline:
            lines += wrapped(f"{finding.code} {_short(finding)}", "  ", 3 if not lines else 2)
    if shown and shown[0].action:
        lines += wrapped(f"next: {shown[0].action}", "  ", 2)
    return lines


def _short(finding: Finding) -> str:
    """Return the message without the place, which the headline says."""
    if finding.code == "JM330":
        return str(finding.message.split(": ", 1)[-1]) if ": " in finding.message else finding.message
    return finding.message


def _frame(frame: Frame) -> str:
    wrong = f", {frame.num_nonfinite:,} not finite" if frame.num_nonfinite else ""
    place = " ".join(part for part in (frame.module_path, frame.source) if part)
    sizes = f"{number(frame.greatest_input)} -> {number(frame.greatest_output)}".replace("not known", "-")
    return f"{frame.phase} {frame.operator} {place}: {sizes}{wrong}"


def _coverage(report: OverflowReport) -> list[str]:
    mode = "" if report.mode == "all" else f", mode {report.mode}"
    ranks = f" of {len(report.ranks)} ranks" if len(report.ranks) > 1 else ""
    lines = [f"  looked at  {counted(report.num_calls, 'call')} in {counted(len(report.steps), 'step')}{ranks}{mode}"]
    if report.num_benign and report.first is not None:
        lines.append(
            f"  harmless   {counted(report.num_benign, 'origin')} of NaN or Inf (masks, skipped steps, never read)"
        )
    if report.skips:
        steps = ", ".join(str(skip.step) for skip in report.skips[:8]) + (", …" if len(report.skips) > 8 else "")
        lines.append(f"  skipped    the updates of steps {steps}")
    if report.notes:
        lines += wrapped(f"not all    {report.notes[0]}{'; …' if len(report.notes) > 1 else ''}", "  ", 2)
    lines.append(f"  recording  {report.path} · {report.device or 'device not recorded'}"[:WIDTH])
    return lines
