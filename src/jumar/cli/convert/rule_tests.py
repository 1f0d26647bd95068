"""`--test-rules`: the tests that a file of user rules brings."""

from __future__ import annotations

import click

from jumar.errors import UsageError
from jumar.migrate.user_rules import UserRules
from jumar.words import counted


def run_tests(rules: UserRules) -> int:
    """Run the tests and print what failed; return 1 when one did. Raises UsageError for a file without tests."""
    from jumar.migrate.user_rules.trials import failures

    number = sum(len(rule.tests) for rule in rules.rules)
    if not number:
        raise UsageError(f'"{rules.path}" must have tests to be run: give a rule `tests` with `before` and `after`.')
    failed = failures(rules)
    for failure in failed:
        click.secho(f"{failure.place} ({failure.rule}) failed:", fg="red")
        click.echo(failure.text, nl=False)
    click.echo(f"{counted(number, 'test')} of {counted(len(rules.rules), 'rule')}: {len(failed) or 'none'} failed.")
    return int(bool(failed))
