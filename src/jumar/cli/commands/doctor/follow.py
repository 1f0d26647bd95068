"""`jumar doctor --follow LOG...`: new errors as they come, until Ctrl-C."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.base.errors import UsageError
from jumar.cli.options import exit_code

if TYPE_CHECKING:
    from jumar.advise.doctor import LogDiagnosis
    from jumar.advise.doctor.logs.follow import Follower, News

_BUSY_S, _IDLE_S, _ASLEEP_S = 0.02, 0.25, 1.0
"""Between two looks: while lines come, when none came, and when none came for long."""
_LONG_S = 30.0


def tell_follow(logs: Sequence[str], *, entries: Sequence[Path], as_json: bool, fail_on: str) -> int:
    """Print each new error of logs that grow; at the end (Ctrl-C, or the end of a pipe) what they say together."""
    from jumar.advise.doctor.entries.store import load_entries
    from jumar.advise.doctor.logs.follow import Follower

    if not logs:
        raise UsageError("--follow needs a log, a folder of logs, or - for stdin. Name one.")
    follower = Follower(logs, load_entries(entries).table)
    teller = _Teller(follower, as_json=as_json)
    with _ended_by_signals(), suppress(KeyboardInterrupt):
        teller.follow()
    teller.clear()
    for news in follower.finish():
        teller.tell(news)
    diagnosis = follower.diagnosis()
    _print_summary(diagnosis, as_json=as_json)
    return exit_code(diagnosis.findings, fail_on)


class _Teller:
    """Prints what a follower finds; in a terminal also a line that says how far it is."""

    def __init__(self, follower: Follower, *, as_json: bool) -> None:
        self._follower = follower
        self._as_json = as_json
        self._has_line = not as_json and sys.stderr.isatty()
        self._line_at = 0.0
        self._bytes = 0

    def follow(self) -> None:
        """Read until nothing more can come."""
        quiet_since = time.monotonic()
        while not self._follower.is_over:
            news, has_read = self._follower.poll()
            now = time.monotonic()
            for one in news:
                self.clear()
                self.tell(one)
            self._show_progress(now)
            if has_read:
                quiet_since = now
            idle = _IDLE_S if now - quiet_since < _LONG_S else _ASLEEP_S
            time.sleep(_BUSY_S if has_read else idle)

    def tell(self, news: News) -> None:
        """Print one error."""
        from jumar.show.pages.doctor.follow import news_text

        if self._as_json:
            document = {"event": "incident", "is_better_told": news.is_better_told, **news.incident.finding.to_json()}
            click.echo(json.dumps(document, ensure_ascii=False))
        else:
            click.echo(news_text(news))
        sys.stdout.flush()

    def clear(self) -> None:
        """Take the line on the reading away."""
        if self._has_line:
            click.echo("\r\x1b[K", nl=False, err=True)

    def _show_progress(self, now: float) -> None:
        from jumar.show.pages.doctor.follow import progress_text

        if not self._has_line or now - self._line_at < 1:
            return
        progress = self._follower.progress
        speed = (progress.num_bytes - self._bytes) / (now - self._line_at) if self._line_at else 0.0
        self._line_at, self._bytes = now, progress.num_bytes
        click.echo(f"\r\x1b[K{progress_text(progress, now, speed)}", nl=False, err=True)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM end the reading as Ctrl-C does, so that the summary is printed."""

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_summary(diagnosis: LogDiagnosis, *, as_json: bool) -> None:
    from jumar.show import print_page
    from jumar.show.pages.doctor.logs import logs_page

    if not as_json:
        print_page(logs_page(diagnosis))
        return
    document = {
        "event": "summary",
        "num_files": len(diagnosis.files),
        "num_lines": sum(report.num_lines for report in diagnosis.files),
        "num_incidents": len(diagnosis.incidents),
        "first": diagnosis.first.finding.to_json() if diagnosis.first else None,
        "notes": list(diagnosis.notes),
    }
    click.echo(json.dumps(document, ensure_ascii=False))
