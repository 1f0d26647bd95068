"""`read_shell`: the variables of tuning that a shell script exports."""

from __future__ import annotations

import shlex
from pathlib import Path

from jumar.base.errors import ScriptError
from jumar.tfadapter.options import UNKNOWN, Setting, options_of
from jumar.tfadapter.source.script import ScriptOptions

_BETWEEN = {"export", "env", "&&", ";"}
"""Words that stand before or between variables. Another word begins a command."""


def read_shell(path: Path) -> ScriptOptions:
    """Return the variables of the table that a shell script sets. Raises ScriptError where it cannot be read."""
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ScriptError(f"{path} cannot be read ({error.strerror}). Name a file that you may read.") from error
    found = ScriptOptions(path)
    known = options_of("environment")
    for number, line in enumerate(lines, 1):
        for name, text in _pairs(line):
            if name in known:
                value = UNKNOWN if "$" in text or "`" in text else text
                found.settings.append(Setting("environment", name, value, None, path, number, "environment"))
    return found


def _pairs(line: str) -> list[tuple[str, str]]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return []
    pairs = []
    for word in words:
        if word in _BETWEEN:
            continue
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier():
            break
        pairs.append((name, text.removesuffix(";")))
    return pairs
