"""The command line and the names of `jumar` are frozen: a change of them is a change of `command_line.json`.

`python tests/cli/test_cli_frozen.py` writes that file anew, after a change that is meant.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

import jumar
from jumar.cli.main import cli

FROZEN = Path(__file__).with_name("command_line.json")


def described() -> dict[str, Any]:
    """Return the public names and every command with its arguments and options."""
    return {"__all__": sorted(jumar.__all__), "commands": dict(sorted(commands(cli, "jumar")))}


def commands(command: click.Command, path: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the command at `path` and those below it."""
    found = [(path, [parameter(one) for one in command.params])]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found += commands(below, f"{path} {name}")
    return found


def parameter(one: click.Parameter) -> dict[str, Any]:
    """Return what a caller can rely on; help texts may change."""
    facts: dict[str, Any] = {
        "names": [*one.opts, *one.secondary_opts],
        "type": one.type.name,
        "required": one.required,
        "default": plain(one.default),
        "values": one.nargs,
    }
    if isinstance(one.type, click.Choice):
        facts["choices"] = list(one.type.choices)
    if isinstance(one.type, click.IntRange | click.FloatRange):
        facts["range"] = [one.type.min, one.type.max]
    if isinstance(one, click.Option):
        facts |= {"flag": one.is_flag, "repeated": one.multiple, "variable": one.envvar, "hidden": one.hidden}
    return facts


def plain(default: Any) -> Any:
    """Return a default as JSON has it; click's mark for "no default" differs between its versions."""
    if isinstance(default, list | tuple):
        return [plain(item) for item in default]
    return default if isinstance(default, str | int | float | bool) else None


def text() -> str:
    """Return the description with one line a parameter."""
    now = described()
    parts = [
        f"{json.dumps(name)}: [{''.join(f'{chr(10)}  {json.dumps(one)},' for one in options).rstrip(',')}]"
        for name, options in now["commands"].items()
    ]
    return f'{{"__all__": {json.dumps(now["__all__"])},\n"commands": {{\n' + ",\n".join(parts) + "\n}}\n"


def test_the_command_line_is_as_frozen() -> None:
    frozen, now = json.loads(FROZEN.read_text("utf-8")), json.loads(text())
    assert now["__all__"] == frozen["__all__"]
    assert list(now["commands"]) == list(frozen["commands"])
    for name, options in now["commands"].items():
        assert options == frozen["commands"][name], name


if __name__ == "__main__":
    FROZEN.write_text(text(), "utf-8")
