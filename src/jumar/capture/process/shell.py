"""Reads which commands a shell script starts, as far as its text tells: `commands`. Runs nothing.

Variables, their defaults, arrays, `"$@"` and the script's own folder are put in; what only running tells stays as it is
written.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_ASSIGNMENT = re.compile(r"(?:(?:export|local|readonly|declare)\s+(?:-\w+\s+)*)?([A-Za-z_]\w*)(\+?)=", re.ASCII)
_PREFIXES = frozenset({"exec", "time", "nohup", "env", "command", "then", "do", "else", "if", "!", "{", "("})
"""Words before a command that change nothing of what it starts."""
_OWN_FOLDER = re.compile(
    r"""\$\(\s*(?:cd\s+(?:--\s+)?"?\$\(\s*)?dirname\s+(?:--\s+)?"?(?:\$0|\$\{0\}|\$\{BASH_SOURCE(?:\[0\])?\}|\$BASH_SOURCE)"?"""
    r"""\s*\)(?:"?\s*(?:>\s*/dev/null\s*(?:2>&1\s*)?)?(?:&&|;)\s*pwd(?:\s+-P)?\s*\))?"""
)
_HERE = re.compile(r"\$\(\s*pwd\s*\)|`pwd`")
_NAME = r"[A-Za-z_]\w*|[@*#]|\d+"
_ALL = re.compile(r'"\$@"|"\$\{@(?::\d+)?\}"|"\$\{(\w+)\[@\]\}"')
_VARIABLE = re.compile(rf"\$(?:({_NAME})|\{{({_NAME})(?:\[[@*0]\])?(?:(:?[-=+?])([^{{}}]*))?\}})")


@dataclass
class _Values:
    """What the variables of a script hold while it is read."""

    plain: dict[str, str]
    arrays: dict[str, list[str]] = field(default_factory=dict)

    def words(self, name: str) -> list[str]:
        return self.arrays.get(name, [])


def commands(
    script: Path, text: str, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Iterator[list[str]]:
    """Yield the words of each simple command of a script's text, in their order, variables put in."""
    values = _Values(dict(os.environ if environment is None else environment))
    values.plain |= {"0": str(script), **{str(place): word for place, word in enumerate(arguments, 1)}}
    values.arrays["@"] = list(arguments)
    folder = str(script.absolute().parent)
    for line in _lines(text):
        whole = _HERE.sub(str(Path.cwd()), _OWN_FOLDER.sub(lambda _: shlex.quote(folder), line))
        for part in _simple(_expanded(whole, values), values):
            if part:
                yield part


def _lines(text: str) -> Iterator[str]:
    """Yield the lines, continued ones and those of an array joined, here-documents left out."""
    whole = re.sub(r"\\\r?\n", " ", text.replace("\r\n", "\n"))
    whole = re.sub(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n.*?\n\s*\1\s*(?=\n|$)", "\n", whole, flags=re.DOTALL)
    waiting = ""
    for line in whole.split("\n"):
        waiting = f"{waiting} {line.split(' #')[0]}" if waiting else line
        if re.search(r"\w\+?=\([^)]*$", waiting) is None:
            yield waiting.strip()
            waiting = ""


def _expanded(line: str, values: _Values) -> str:
    """Return a line with the values of its variables; those that nothing set are empty, as in a shell."""

    def all_words(match: re.Match[str]) -> str:
        return shlex.join(values.words(match[1] or "@"))

    def one(match: re.Match[str]) -> str:
        name, operator, other = match[1] or match[2], match[3] or "", match[4] or ""
        held = shlex.join(values.words("@" if name == "*" else name)) or values.plain.get(name, "")
        if operator.endswith(("-", "=")):
            return held or _VARIABLE.sub(one, other)
        if operator.endswith("+"):
            return _VARIABLE.sub(one, other) if held else ""
        return held

    return _VARIABLE.sub(one, _ALL.sub(all_words, line))


def _simple(line: str, values: _Values) -> Iterator[list[str]]:
    """Yield the simple commands of a line; its assignments go to `values`."""
    array = re.match(_ASSIGNMENT.pattern + r"\((.*)\)\s*$", line)
    if array is not None:
        before = values.words(array[1]) if array[2] else []
        values.arrays[array[1]] = [*before, *_split(array[3])]
        return
    words: list[str] = []
    for word in [*_split(line), ";"]:
        if word and not word.strip(";&|()"):
            yield _command(words, values)
            words = []
        else:
            words.append(word)


def _command(words: list[str], values: _Values) -> list[str]:
    """Return a command without the words before it; assignments by themselves are noted."""
    declares = bool(words) and words[0] in {"export", "local", "readonly", "declare"}
    found: dict[str, str] = {}
    at = 1 if declares else 0
    while at < len(words):
        match = _ASSIGNMENT.match(words[at])
        if match is not None:
            before = values.plain.get(match[1], "") if match[2] else ""
            found[match[1]] = before + words[at][match.end() :]
        elif words[at] not in _PREFIXES:
            break
        at += 1
    if at == len(words):
        values.plain |= found
        for name in found:
            values.arrays.pop(name, None)
    return [] if declares else words[at:]


def _split(text: str) -> list[str]:
    """Return the words of a line, operators by themselves; none for a line that is no whole one."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        return list(lexer)
    except ValueError:
        return []
