"""`read_shell`: the variables of tuning that a shell script exports, and what it gives to `aoe` and `atc`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from jumar.base.errors import ScriptError
from jumar.tfadapter.options import UNKNOWN, Setting, Style, options_of
from jumar.tfadapter.source.script import ScriptOptions

_BETWEEN = frozenset({"export", "env", "declare", "-x", "&&", ";", "then", "do", "else", "nohup", "time", "exec"})
"""Words that stand before or between variables. Another word begins a command."""
_ENDS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "2>", "2>&1", "#"})
TUNERS = frozenset({"aoe", "atc"})
_SHORT = {"-j": "job_type"}


def read_shell(path: Path) -> ScriptOptions:
    """Return what of the table a shell script sets. Raises ScriptError where it cannot be read."""
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise ScriptError(f"{path} cannot be read ({error.strerror}). Name a file that you may read.") from error
    found = ScriptOptions(path)
    runs = set()
    for number, line in _lines(text):
        words = _words(line)
        for name, value in _variables(words):
            _set(found, "environment", name, value, number, "environment")
        for name, value in _of_tuner(words):
            _set(found, "command", name, value, number, f"command:{number}")
        runs |= {PurePosixPath(word).name for word in words if word.endswith(".py")}
    found.runs = frozenset(runs)
    return found


def _set(found: ScriptOptions, style: Style, name: str, text: str, line: int, group: str) -> None:
    """Note an option that the table has. Other variables and options are another program's."""
    if name in options_of(style):
        value = UNKNOWN if "$" in text or "`" in text else text
        found.settings.append(Setting(style, name, value, None, found.path, line, f"{found.path}:{group}", text=text))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers; one that ends in a backslash goes on in the next."""
    start, kept = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        start = start or number
        if line.endswith("\\"):
            kept += f"{line[:-1]} "
            continue
        yield start, kept + line
        start, kept = 0, ""
    if kept:
        yield start, kept


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return []


def _variables(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that are set before a command, or by `export`."""
    for word in words:
        if word in _BETWEEN:
            continue
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier():
            return
        yield name, text.removesuffix(";")


def _of_tuner(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of `aoe` or `atc`: `--name=value`, `--name value`, `-j 2`."""
    start = next((at for at, word in enumerate(words) if PurePosixPath(word).name in TUNERS), None)
    if start is None:
        return
    rest = words[start + 1 :]
    for at, word in enumerate(rest):
        if word in _ENDS:
            return
        name, equals, text = word.partition("=")
        if not name.startswith("-"):
            continue
        following = rest[at + 1] if at + 1 < len(rest) and not rest[at + 1].startswith("--") else ""
        yield _SHORT.get(name, name.lstrip("-")), text if equals else following
