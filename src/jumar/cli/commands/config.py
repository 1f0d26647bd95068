"""`jumar config`: which defaults count here, and where each comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click

from jumar.base.errors import UsageError
from jumar.cli.answer import print_document
from jumar.cli.config import OUTRANKED_BY, SHARED, Config, check_top, defaults, options_of, read_config, shared_key
from jumar.cli.main import COMMANDS, Command, cli
from jumar.cli.options import json_only_option
from jumar.show.terminal.tell import tell

_EXAMPLE_HEAD = """\
# Defaults of Jumar's options. In pyproject.toml write [tool.jumar] and [tool.jumar.tune] for these tables.
# The nearest file upwards counts; the command line and environment variables count more.
"""
_COMMON = ("tune", "port", "record", "compare", "run")


@click.command(cls=Command)
@click.argument("command_words", nargs=-1, metavar="[COMMAND]...")
@click.option("--example", is_flag=True, help="Print a jumar.toml with every shared key and common options, commented.")
@json_only_option
def command(command_words: tuple[str, ...], example: bool, as_json: bool) -> int:
    """Show what the configuration sets here; with COMMAND, every option of it and where its value comes from.

    Example: jumar config tune

    Example: jumar config --example > jumar.toml
    """
    if example:
        click.echo(_example(), nl=False)
        return 0
    config = read_config()
    check_top(config, [*COMMANDS])
    rows = [*_rows(config, command_words)]
    if as_json:
        print_document(file=str(config.path) if config.path else None, settings=[_document(row) for row in rows])
        return 0
    tell(f"Configuration: {config.path or 'no jumar.toml, and no [tool.jumar] in a pyproject.toml, upwards'}")
    width = max((len(row[0]) for row in rows), default=0)
    for name, value, origin in rows:
        click.echo(f"  {name:<{width}}  {value}  ({origin})")
    if not rows:
        tell("  Nothing is set. `jumar config --example` prints what can be.")
    return 0


def _rows(config: Config, words: tuple[str, ...]) -> Iterator[tuple[str, Any, str]]:
    """Yield name, value and origin: of all that is set, or of every option of a command."""
    if words:
        yield from _of_command(config, words, _command(words), all_of_them=True)
        return
    for key in SHARED:
        if key in config.values:
            yield key, config.values[key], config.place((), key)
    context = click.Context(cli)
    for name in COMMANDS:
        if name in config.values:
            found = cli.get_command(context, name)
            assert found is not None
            yield from _of_command(config, (name,), found, all_of_them=False)


def _of_command(
    config: Config, words: tuple[str, ...], found: click.Command, *, all_of_them: bool
) -> Iterator[tuple[str, Any, str]]:
    given = defaults(config, words, found)
    lead = "" if all_of_them else f"{' '.join(words)} "
    table = config.values
    for word in words:
        table = table.get(word, {})
    for key, option in options_of(found).items():
        variables = [name for name in OUTRANKED_BY.get(key, ()) if os.environ.get(name)]
        if variables and (all_of_them or key in table):
            yield f"{lead}--{key}", os.environ[variables[0]], f"environment variable {variables[0]}"
        elif option.name in given and (all_of_them or key in table):
            where = config.place(words, key) if key in table else config.place((), shared_key(key))
            yield f"{lead}--{key}", given[option.name], where
        elif all_of_them:
            yield f"--{key}", "not set" if option.default is None else option.default, "default"
    if isinstance(found, click.Group) and not all_of_them:
        for name in found.list_commands(click.Context(found)):
            below = found.get_command(click.Context(found), name)
            if below is not None and name in table:
                yield from _of_command(config, (*words, name), below, all_of_them=False)


def _command(words: tuple[str, ...]) -> click.Command:
    found: click.Command = cli
    for at, word in enumerate(words):
        below = found.get_command(click.Context(found), word) if isinstance(found, click.Group) else None
        if below is None:
            raise UsageError(f"jumar {' '.join(words[: at + 1])} is no command. Try jumar --help.")
        found = below
    return found


def _document(row: tuple[str, Any, str]) -> dict[str, str]:
    name, value, origin = row
    return {"name": name, "value": str(value), "from": origin}


def _example() -> str:
    lines = [_EXAMPLE_HEAD]
    lines += [f"# {key} = {_sample(key)}  # {text}" for key, text in SHARED.items()]
    for name in _COMMON:
        found = _command((name,))
        lines += ["", f"[{name}]"]
        for key, option in options_of(found).items():
            if key in SHARED or option.required or getattr(option, "more", False):
                continue
            lines.append(f"# {key} = {_toml(option)}  # {(option.help or '').split('.  [')[0]}")
    return "\n".join(lines) + "\n"


def _sample(key: str) -> str:
    return {"soc": '"Ascend910B1"', "torch-version": '"2.13"', "fail-on": '"error"', "language": '"zh"'}.get(
        key, '"/shared/bank"'
    )


def _toml(option: click.Option) -> str:
    if option.is_flag:
        return "true"
    if isinstance(option.type, click.Choice):
        return f'"{option.default or next(iter(option.type.choices))}"'
    return str(option.default) if isinstance(option.default, (int, float)) else '"…"'
