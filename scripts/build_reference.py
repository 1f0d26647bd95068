"""Write the reference pages from the code: `python scripts/build_reference.py`.

`docs/reference/commands.md` has every command with all of its options, `docs/reference/api.md` what `import jumar`
gives.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

import jumar
from jumar.cli.main import COMMANDS, cli

OUT = Path(__file__).parents[1] / "docs" / "reference"
HEAD = "<!-- Written by scripts/build_reference.py. -->\n\n"


def commands_page() -> str:
    """Return the page of all commands."""
    context = click.Context(cli, info_name="jumar")
    lines = [
        HEAD + "# Commands",
        "",
        "Every command with every option. Exit codes and defaults in files: [configuration and the",
        "terminal](../guide-config.md).",
        "",
    ]
    lines += ["| command | does |", "|---|---|"]
    lines += [f"| [`jumar {name}`](#jumar-{name}) | {text} |" for name, text in COMMANDS.items()]
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        lines += section(command, f"jumar {name}", 2)
    return "\n".join(lines) + "\n"


def section(command: click.Command, path: str, level: int) -> Iterator[str]:
    """Yield the lines of a command, and of those below it."""
    yield from ("", f"{'#' * level} `{path}`", "", *usage(command, path), "")
    yield text_of(command.help or "")
    context = click.Context(command, info_name=path)
    rows = [one.get_help_record(context) for one in command.params if isinstance(one, click.Option)]
    if any(rows):
        yield from ("", "| option | does |", "|---|---|")
        yield from (f"| `{cell(row[0])}` | {cell(row[1])} |" for row in rows if row)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from section(below, f"{path} {name}", level + 1)


def usage(command: click.Command, path: str) -> list[str]:
    """Return the line that says how the command is called, as a block."""
    words = " ".join(command.collect_usage_pieces(click.Context(command, info_name=path)))
    return ["```text", f"{path} {words}", "```"]


def text_of(help_text: str) -> str:
    """Return a command's text as Markdown: what click keeps line by line becomes a block."""
    parts = []
    for part in cleandoc(help_text).split("\n\n"):
        if part.startswith("\b"):
            parts.append("```text\n" + part.removeprefix("\b\n") + "\n```")
        else:
            parts.append(escaped(part))
    return "\n\n".join(parts)


def escaped(text: str) -> str:
    """Return text in which Markdown finds nothing but backquotes."""
    pieces = text.split("`")
    return "`".join(
        one if index % 2 else one.replace("<", "\\<").replace("*", "\\*").replace("[", "\\[")
        for index, one in enumerate(pieces)
    )


def cell(text: str) -> str:
    """Return text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def api_page() -> str:
    """Return the page of the names that `import jumar` gives."""
    lines = [HEAD + "# Python", "", "What `import jumar` gives. The nouns are those of the commands.", ""]
    for name in sorted(jumar.__all__):
        value = getattr(jumar, name)
        if not callable(value):
            continue
        lines += ["", f"## `jumar.{name}`", "", "```python no-run", signature(name, value), "```", ""]
        lines += [described(inspect.getdoc(value) or "")]
    return "\n".join(lines) + "\n"


def signature(name: str, value: object) -> str:
    """Return how something is called."""
    try:
        return f"jumar.{name}{str(inspect.signature(value)).replace(chr(39), '')}"  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return f"jumar.{name}(...)"


def described(text: str) -> str:
    """Return a docstring as Markdown."""
    return "\n\n".join(
        escaped(part) if not part.startswith((" ", "\t")) else f"```text\n{part}\n```" for part in text.split("\n\n")
    )


def pages() -> dict[str, str]:
    """Return the pages by file name."""
    return {"commands.md": commands_page(), "api.md": api_page()}


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for file, text in pages().items():
        (OUT / file).write_text(text, encoding="utf-8")
    sys.exit(0)
