"""`jumar doctor --fix`: show each change, ask, write the script that undoes it, and make it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.base.errors import UsageError
from jumar.cli.answer import print_document

if TYPE_CHECKING:
    from jumar.advise.doctor import Host
    from jumar.advise.doctor.fixes import Change, Made, Proposal
    from jumar.base.findings import Finding

EXIT_LEFT = 1


def tell_fixes(logs: Sequence[str], *, entries: Sequence[Path], without_asking: bool, as_json: bool) -> int:
    """Mend what can be undone. Without LOGs what this machine needs, with LOGs what their first cause asks for.

    Returns 1 where a change failed, or was offered and not made. Raises UsageError where nobody can be asked.
    """
    from jumar.advise.doctor.fixes import make, propose
    from jumar.show import print_page
    from jumar.show.pages.doctor.fixes import changes_page, made_page

    host, findings = _findings(logs, entries)
    folder = Path.cwd()
    proposal = propose(host, findings, folder=folder)
    may_ask = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    if not as_json:
        print_page(changes_page(proposal, is_root=_is_root()))
    if proposal.changes and not without_asking and not may_ask:
        if as_json:
            print_document(**_document(proposal, None))
        raise UsageError("--fix asks before each change, and this is no terminal. Add --yes to make all of them.")
    chosen = [change for change in proposal.changes if without_asking or _asked(change)]
    made = make(chosen, folder)
    if as_json:
        print_document(**_document(proposal, made))
    elif proposal.changes:
        print_page(made_page(made, num_left=len(proposal.changes) - len(chosen)))
    return EXIT_LEFT if made.failed or len(chosen) < len(proposal.changes) else 0


def _findings(logs: Sequence[str], entries: Sequence[Path]) -> tuple[Host, Sequence[Finding]]:
    from jumar.advise.doctor import diagnose_logs, examine, survey
    from jumar.advise.doctor.entries.store import load_entries
    from jumar.show import progress

    with progress() as bars:
        bars.add_task("Read logs" if logs else "Look at this machine", total=None)
        host = survey()
        if not logs:
            return host, examine(host).findings
        first = diagnose_logs([Path(log) for log in logs], table=load_entries(entries).table).first
        return host, [] if first is None else [first.finding]


def _asked(change: Change) -> bool:
    click.echo(f"\n{change.title} ({change.code})")
    for line in change.lines():
        click.echo(f"    {line}")
    if change.needs_root and not _is_root():
        click.echo("    This needs root, which this user is not: it will fail.")
    return click.confirm("Make this change?", default=False)


def _is_root() -> bool:
    return not hasattr(os, "geteuid") or os.geteuid() == 0


def _document(proposal: Proposal, made: Made | None) -> dict[str, Any]:
    done = {id(change) for change in made.made} if made else set()
    failed = {id(change): why for change, why in made.failed} if made else {}
    return {
        "changes": [
            {
                "title": change.title,
                "code": change.code,
                "lines": change.lines(),
                "undo": change.undo(),
                "needs_root": change.needs_root,
                "made": id(change) in done,
                "failed": failed.get(id(change)),
            }
            for change in proposal.changes
        ],
        "left": [
            {"code": one.code, "message": one.message, "reason": one.reason, "action": one.action}
            for one in proposal.refusals
        ],
        "undo_script": str(made.undo) if made and made.undo else None,
    }
