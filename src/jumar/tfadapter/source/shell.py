"""`read_shell`: the variables of tuning that a shell script exports, and what it gives to `aoe` and `atc`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from jumar.base.errors import ScriptError
from jumar.tfadapter.options import UNKNOWN, Setting, Style, options_of
from jumar.tfadapter.source.commands import commands_in, lines_of, words_of
from jumar.tfadapter.source.script import ScriptOptions

_BETWEEN = frozenset({"export", "env", "declare", "-x", "&&", ";", "then", "do", "else", "nohup", "time", "exec"})
"""Words that stand before or between variables. Another word begins a command."""


def read_shell(path: Path) -> ScriptOptions:
    """Return what of the table a shell script sets. Raises ScriptError where it cannot be read."""
    try:
        text = path.read_text("utf-8-sig", errors="replace")
    except OSError as error:
        raise ScriptError(f"{path} cannot be read ({error.strerror}). Name a file that you may read.") from error
    return read_commands(text, path)


def read_commands(text: str, path: Path, *, bare: bool = False) -> ScriptOptions:
    """Return what of the table a shell's text sets; `path` is where it is from. `bare` takes lines of options, too."""
    found = ScriptOptions(path)
    runs = set()
    for number, line in lines_of(text):
        words = words_of(line) or []
        for name, value in _variables(words):
            _set(found, "environment", name, value, number, "environment")
        for command in commands_in(line, bare=bare):
            found.commands.append(replace(command, line=number))
            for name, value in command.last.items():
                _set(found, "command", name, value, number, f"command:{len(found.commands)}")
        runs |= {PurePosixPath(word).name for word in words if word.endswith(".py")}
    found.runs = frozenset(runs)
    return found


def _set(found: ScriptOptions, style: Style, name: str, text: str, line: int, group: str) -> None:
    """Note an option that the table has. Other variables and options are another program's."""
    if name in options_of(style):
        value = UNKNOWN if "$" in text or "`" in text else text
        found.settings.append(Setting(style, name, value, None, found.path, line, f"{found.path}:{group}", text=text))


def _variables(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that are set before a command, or by `export`."""
    for word in words:
        if word in _BETWEEN:
            continue
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier():
            return
        yield name, text.removesuffix(";")
