"""`jumar rule`: the page of a rule, or the table of all of them."""

from __future__ import annotations

import click

from jumar.base.rules import all_rules, rule_named
from jumar.cli.complete import rules
from jumar.cli.main import Command
from jumar.cli.options import json_only_option


@click.command(cls=Command)
@click.argument("code", required=False, shell_complete=rules)
@json_only_option
def command(code: str | None, as_json: bool) -> int:
    """Explain the rule CODE (a code such as JM101, or a rule's name); without CODE, list all rules.

    Example: jumar rule JM108
    """
    from jumar.show.pages.rules import document, facts, print_rule, print_rules

    if as_json:
        from jumar.show import json_text

        rows = [facts(rule) for rule in all_rules()] if code is None else []
        click.echo(json_text({"rules": rows} if code is None else document(rule_named(code))), nl=False)
    elif code is None:
        print_rules(all_rules())
    else:
        print_rule(rule_named(code))
    return 0
