"""The block under the failure of a run: what the doctor makes of it, on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from jumar.advise.doctor import Incident

_MOST_TEXT = 160


def tell_cause(incident: Incident, *, is_emulated: bool) -> None:
    """Print the cause of a failure, and what to do next."""
    click.echo("\n".join(cause_lines(incident, is_emulated=is_emulated)), err=True)


def cause_lines(incident: Incident, *, is_emulated: bool) -> Iterator[str]:
    """Yield the lines of the block."""
    finding = incident.finding
    where = "jumar: the doctor" + (" (the emulated NPU says what the vendor's software says)" if is_emulated else "")
    yield f"{where}: {finding.message}"
    text = str(finding.evidence.get("text", "")).strip()
    if text:
        yield f"jumar:   line: {text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + '…'}"
    if finding.why:
        yield f"jumar:   cause: {finding.why}"
    if finding.action:
        yield f"jumar:   next: {finding.action}"
