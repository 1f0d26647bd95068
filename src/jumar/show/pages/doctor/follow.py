"""What `jumar doctor --follow` prints: a few lines for each new error, and a line on how far the reading is."""

from __future__ import annotations

from datetime import datetime

from jumar.advise.doctor.logs.follow import News, Progress
from jumar.base.findings import Severity
from jumar.base.text import counted, size_text

_MOST_CHARACTERS = 300


def news_text(news: News) -> str:
    """Return the block of an error, one line for a warning."""
    finding = news.incident.finding
    rank = f"  rank {finding.where.rank}" if finding.where.rank is not None else ""
    time = str(finding.evidence.get("time", ""))[:19] or f"seen {datetime.now():%H:%M:%S}"
    head = f"{time}{rank}  {finding.where}"
    if finding.severity is not Severity.ERROR:
        return f"{finding.severity.label}: {finding.message}  ({head})"
    again = " (more is known of it now)" if news.is_better_told else ""
    lines = [head, f"  {finding.severity.label}{again}: {finding.message}"]
    said = (("why", finding.why), ("do", finding.action))
    lines += [f"  {name}: {text[:_MOST_CHARACTERS]}" for name, text in said if text]
    return "\n".join(lines)


def progress_text(progress: Progress, now: float, speed_bytes: float) -> str:
    """Return the line on the reading; `speed_bytes` are those of the last second."""
    said = f"{counted(progress.num_lines, 'line')} of {counted(progress.num_files, 'log')}, {size_text(speed_bytes)}/s"
    if progress.last_at is not None:
        said += f", last line {now - progress.last_at:.0f} s ago"
    repeats = sum(progress.repeats.values())
    return said + (f", {counted(repeats, 'repeat')} in other logs" if repeats else "")
