"""`jumar bank prune`: removes entries that are no longer of use."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import click

from jumar.cli.answer import print_document
from jumar.cli.main import Command
from jumar.cli.options import bank_option, json_option, open_bank
from jumar.show.tuning.bank import make_table, print_table
from jumar.tune.plan.plan import worded

if TYPE_CHECKING:
    from jumar.tune.bank.precisions import Known


@click.command(cls=Command)
@click.option(
    "--older-than", metavar="DAYS", type=click.FloatRange(min=0), help="Entries that were not changed for so many days."
)
@click.option(
    "--other-versions", is_flag=True, help="Entries of this machine with other versions or another number of threads."
)
@click.option("--unsatisfied", is_flag=True, help="Entries that were tuned and have no faster policy.")
@click.option("--dry-run", is_flag=True, help="Only list the entries.")
@bank_option
@json_option
def prune(
    *, older_than: float | None, other_versions: bool, unsatisfied: bool, dry_run: bool, bank: str | None, as_json: bool
) -> int:
    """Remove operators that all the given options describe.

    An operator goes with all its policies on a machine, because they were measured on top of each other.

    Example: jumar bank prune --other-versions --dry-run
    """
    from jumar.base.errors import UsageError

    tests = _tests(older_than, other_versions, unsatisfied)
    if not tests:
        raise UsageError(
            "jumar bank prune needs to know what to remove: give --older-than, --other-versions or --unsatisfied."
        )
    opened = open_bank(bank)
    gone = opened.prune(lambda entry: all(test(entry) for test in tests), dry_run=dry_run)
    if as_json:
        print_document(removed=[entry.to_json() for entry in gone], dry_run=dry_run, bank=opened.name)
        return 0
    rows = [
        [
            str(entry.task),
            entry.kind,
            worded(entry.policy) if entry.policy else "none",
            str(entry.machine),
            entry.updated,
        ]
        for entry in gone
    ]
    done, entries = "Would remove" if dry_run else "Removed", "entry" if len(gone) == 1 else "entries"
    titles = ["Operator", "Kind", "Policy", "Measured on", "Changed"]
    print_table(f"{done} {len(gone)} {entries} of {opened.name}.", make_table(titles, rows))
    return 0


def _tests(older_than: float | None, other_versions: bool, unsatisfied: bool) -> list[Callable[[Known], bool]]:
    tests: list[Callable[[Known], bool]] = []
    if older_than is not None:
        now = datetime.now(timezone.utc)  # ages are compared, not times: there may be none so long ago
        tests.append(lambda entry: (now - datetime.fromisoformat(entry.updated)) / timedelta(days=1) > older_than)
    if other_versions:
        from jumar.tune import this_machine

        here = this_machine()
        tests.append(lambda entry: entry.machine.hardware == here.hardware and entry.machine != here)
    if unsatisfied:
        tests.append(lambda entry: entry.policy is None)
    return tests
