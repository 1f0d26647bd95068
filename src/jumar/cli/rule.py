"""`jumar rule`: the page of a rule, or the table of all of them."""

from __future__ import annotations

import difflib
import importlib
import inspect

import click

from jumar.cli.options import json_option
from jumar.rules import Registry, Rule

ROOMS = ("migrate", "assess", "accuracy", "performance", "tune", "export", "doctor", "port")
"""Rooms that have rules, in the order of the codes."""


def all_rules() -> Registry:
    """Return the rules of every room."""
    rooms = [importlib.import_module(f"jumar.{room}.rules") for room in ROOMS]
    return Registry(rule for room in rooms for rule in room.RULES)


@click.command()
@click.argument("code", required=False)
@json_option
def command(code: str | None, as_json: bool) -> int:
    """Explain the rule CODE (a code such as JM101, or a rule's name); without CODE, list all rules.

    Example: jumar rule JM108
    """
    rules = all_rules()
    if code is None:
        _print_table(rules, as_json)
    else:
        _print_rule(find(rules, code), as_json)
    return 0


def find(rules: Registry, code_or_name: str) -> Rule:
    """Return the rule of this code or name. Raises UsageError, which names the nearest ones, when there is none."""
    from jumar.errors import UsageError

    rule = rules.find(code_or_name)
    if rule is not None:
        return rule
    names = [name for rule in rules for name in (rule.code, rule.name)]
    near = difflib.get_close_matches(code_or_name.lower(), [name.lower() for name in names], n=3, cutoff=0.5)
    nearest = [found for name in near if (found := rules.find(name)) is not None]
    hint = " or ".join(f"{rule.code} ({rule.name})" for rule in dict.fromkeys(nearest))
    raise UsageError(f'"{code_or_name}" is not a rule. Try {hint or "`jumar rule` for the list"}.')


def facts(rule: Rule) -> dict[str, str]:
    """Return what is fixed about a rule, for tables and JSON."""
    return {
        "code": rule.code,
        "name": rule.name,
        "summary": rule.summary,
        "severity": rule.severity.label,
        "fix": rule.safety or "none",
        "lifecycle": rule.lifecycle,
        "applied": "on request" if rule.opt_in else "always",
    }


def _print_table(rules: Registry, as_json: bool) -> None:
    from jumar.report import json_text

    if as_json:
        click.echo(json_text({"rules": [facts(rule) for rule in rules]}), nl=False)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("Code", "Name", "Severity", "Fix"):
        table.add_column(heading, no_wrap=True)
    table.add_column("What it reports")
    for rule in rules:
        table.add_row(rule.code, rule.name, rule.severity.label, rule.safety or "", rule.summary)
    console = Console()
    if not console.is_terminal:  # a pipe has no width: one line a rule
        console = Console(width=200)
    console.print(table)
    console.print("\n`jumar rule CODE` explains one.", highlight=False)


def _print_rule(rule: Rule, as_json: bool) -> None:
    from jumar.report import json_text

    if as_json:
        click.echo(json_text({**facts(rule), "doc": inspect.cleandoc(rule.doc)}), nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=min(Console().width, 100)).print(Markdown(markdown(rule)))


def markdown(rule: Rule) -> str:
    """Return the page of a rule: its name, what is fixed about it, and its documentation."""
    fix = {None: "none", "safe": "safe", "unsafe": "unsafe (`--unsafe`)", "display-only": "shown, never made"}
    state = "" if rule.lifecycle == "stable" else f" · {rule.lifecycle}"
    facts_line = f"Severity: {rule.severity.label} · Fix: {fix[rule.safety]}{state}"
    head = f"# {rule.code} {rule.name}\n\n{rule.summary}\n\n{facts_line}"
    return f"{head}\n\n{inspect.cleandoc(rule.doc).strip()}\n"
