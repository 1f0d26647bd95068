"""Rules as text: the page of one rule, the table of all of them, and the folder of pages."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from jumar.base.rules import Rule, documentation
from jumar.base.text.language import translate

SUBJECTS = {
    "JM1": "Conversion",
    "JM2": "Assessment",
    "JM3": "Accuracy",
    "JM4": "Performance",
    "JM5": "Tuning",
    "JM6": "Mixed precision",
    "JM7": "Export",
    "JM8": "Environment",
    "JM9": "Runs",
}
"""The first three characters of a code to the subject of its rules."""
_FIXES = {None: "none", "safe": "safe", "unsafe": "unsafe (`--unsafe`)", "display-only": "shown, never made"}
_WIDEST = 100
_WIDTH_OF_A_PIPE = 200
"""A pipe has no width: each rule stands on one line."""


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


def document(rule: Rule) -> dict[str, Any]:
    """Return everything about a rule, for JSON."""
    return {**facts(rule), "doc": inspect.cleandoc(documentation(rule))}


def markdown(rule: Rule) -> str:
    """Return the page of a rule: its name, what is fixed about it, and its documentation."""
    state = "" if rule.lifecycle == "stable" else f" · {rule.lifecycle}"
    facts_line = f"Severity: {rule.severity.label} · Fix: {_FIXES[rule.safety]}{state}"
    head = f"# {rule.code} {rule.name}\n\n{rule.summary}\n\n{facts_line}"
    return f"{head}\n\n{inspect.cleandoc(documentation(rule)).strip()}\n"


def pages(rules: Iterable[Rule]) -> dict[str, str]:
    """Return file name to content: `README.md` (the index), `JM101.md` and so on."""
    rules = list(rules)
    return {f"{rule.code}.md": markdown(rule) for rule in rules} | {"README.md": _index(rules)}


def _index(rules: Iterable[Rule]) -> str:
    lines = ["# Rules", "", "Every finding names its rule; `jumar rule CODE` prints the same page.", ""]
    subject = ""
    for rule in rules:
        if rule.code[:3] != subject:
            subject = rule.code[:3]
            head = ["| code | name | severity | fix | what it reports |", "|---|---|---|---|---|"]
            lines += ([""] if lines[-1] else []) + [f"## {SUBJECTS.get(subject, subject)}", "", *head]
        row = facts(rule)
        summary = row["summary"].replace("|", "\\|")
        lines.append(
            f"| [{row['code']}]({row['code']}.md) | {row['name']} | {row['severity']} | {row['fix']} | {summary} |"
        )
    return "\n".join(lines) + "\n"


def print_rule(rule: Rule) -> None:
    """Print the page of a rule to the terminal."""
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=min(Console().width, _WIDEST)).print(Markdown(_told(markdown(rule))))


def _told(page: str) -> str:
    """Return a page with what the catalogue has of it: headings and paragraphs; code stays."""
    return "\n\n".join(_told_part(part) for part in page.split("\n\n"))


def _told_part(part: str) -> str:
    heading, _, rest = part.partition("\n") if part.startswith("#") else ("", "", part)
    marks, _, title = heading.partition(" ")
    joined = " ".join(rest.split())
    told = translate(joined)
    body = rest if told == joined or rest.startswith("`" * 3) else told
    return "\n".join(filter(None, (f"{marks} {translate(title)}".strip(), body)))


def print_rules(rules: Iterable[Rule]) -> None:
    """Print a table of rules to the terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("Code", "Name", "Severity", "Fix"):
        table.add_column(translate(heading), no_wrap=True)
    table.add_column(translate("What it reports"))
    for rule in rules:
        table.add_row(rule.code, rule.name, rule.severity.label, rule.safety or "", translate(rule.summary))
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_OF_A_PIPE)
    console.print(table)
    console.print(f"\n{translate('`jumar rule CODE` explains one.')}", highlight=False)
