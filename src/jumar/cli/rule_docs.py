"""Writes the rules' pages: `python -m jumar.cli.rule_docs docs/rules`.

One page a rule and an index; pages of rules that are gone are removed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from jumar.cli.rule import all_rules, facts, markdown
from jumar.rules import Registry

ROOMS = {
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


def pages(rules: Registry) -> dict[str, str]:
    """Return file name to content: `README.md` (the index) and `JM101.md` and so on."""
    found = {f"{rule.code}.md": markdown(rule) for rule in rules}
    found["README.md"] = _index(rules)
    return found


def _index(rules: Registry) -> str:
    lines = ["# Rules", "", "Every finding names its rule; `jumar rule CODE` prints the same page.", ""]
    room = ""
    for rule in rules:
        if rule.code[:3] != room:
            room = rule.code[:3]
            head = ["| code | name | severity | fix | what it reports |", "|---|---|---|---|---|"]
            lines += ([""] if lines[-1] else []) + [f"## {ROOMS.get(room, room)}", "", *head]
        row = facts(rule)
        summary = row["summary"].replace("|", "\\|")
        lines.append(
            f"| [{row['code']}]({row['code']}.md) | {row['name']} | {row['severity']} | {row['fix']} | {summary} |"
        )
    return "\n".join(lines) + "\n"


def write(folder: Path, rules: Registry) -> list[Path]:
    """Write every page into `folder` and remove stale ones; return what changed."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages(rules)
    changed = []
    for name, text in wanted.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    for path in folder.glob("JM*.md"):
        if path.name not in wanted:
            path.unlink()
            changed.append(path)
    return changed


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def command(folder: Path) -> None:
    """Write the rules' pages into FOLDER."""
    changed = write(folder, all_rules())
    click.echo(f"{len(changed)} pages changed in {folder}")


if __name__ == "__main__":
    sys.exit(command())
