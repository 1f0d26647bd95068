"""`commands_in`: the lines of a text that start `aoe`, `atc` or `jumar tune`, in words."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

TUNERS = frozenset({"aoe", "atc"})
_ENDS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "2>", "2>&1", "#"})
_SHORT = {"-j": "job_type", "-m": "model", "-w": "weight", "-f": "framework"}
_FLAGS = frozenset(
    {"help", "json", "Fdeeper_opat", "deeper", "Fnonhomo_split", "uneven_splits", "h", "fdeeper_opat", "fnonhomo_split"}
)
"""Options that take no value, so that the next word is not theirs."""


@dataclass(frozen=True)
class CommandLine:
    """One call of a tuner."""

    line: int
    program: str
    """`aoe`, `atc` or `jumar`; empty where only options are given."""
    start: tuple[str, ...]
    """The words up to the first option or argument: `atc`, or `jumar tune`."""
    options: tuple[tuple[str, str], ...]
    """Names with underscores and without dashes, and values, in their order. A flag has an empty value."""
    arguments: tuple[str, ...]

    @property
    def last(self) -> Mapping[str, str]:
        """The value that holds of each option: the last one."""
        return dict(self.options)

    def __str__(self) -> str:
        """The command as it can be given to a shell."""
        return self.written(self.options)

    def written(self, options: Sequence[tuple[str, str]]) -> str:
        """Return the command with other options, quoted for a shell."""
        dash = "-" if self.program == "jumar" else "_"
        named = [
            f"--{name if name[:1] == 'F' else name.replace('_', dash)}{f'={value}' if value else ''}"
            for name, value in options
        ]
        return shlex.join([*self.start, *self.arguments, *named])

    def changed(self, values: Mapping[str, str | None]) -> str:
        """Return the command with these values of options; None takes an option out."""
        kept = [(name, values.get(name, value)) for name, value in self.last.items()]
        new = [(name, value) for name, value in values.items() if name not in self.last]
        return self.written([(name, value) for name, value in (*kept, *new) if value is not None])


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers; one that ends in a backslash goes on in the next. Any line end counts."""
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


def words_of(line: str) -> list[str] | None:
    """Return the words of a line as a shell reads them; None where a quotation mark is not closed."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return None


def commands_in(text: str, *, bare: bool = False) -> Iterator[CommandLine]:
    """Yield the calls of tuners in a text, in their order; where `bare`, a line of options is one, too."""
    for number, line in lines_of(text):
        words = words_of(line) or []
        while (start := _start(words, bare)) is not None:
            command, words = _command(words, start, number)
            yield command


def is_command(text: str) -> bool:
    """Tell whether a word of a command line is itself a command line: it calls a tuner, or begins with options."""
    words = words_of(text) or text.split()
    return bool(words) and _start(words, bare=True) is not None


def _start(words: Sequence[str], bare: bool) -> int | None:
    """Return where the first word of a call stands."""
    for at, word in enumerate(words):
        name = PurePosixPath(word).name
        if name in TUNERS or (name == "jumar" and words[at + 1 : at + 2] == ["tune"]):
            return at
    return 0 if bare and words and words[0].startswith("--") else None


def _command(words: list[str], start: int, line: int) -> tuple[CommandLine, list[str]]:
    """Return the call that begins at `start`, and the words after its end."""
    program = PurePosixPath(words[start]).name
    first = start + {"jumar": 2}.get(program, 0 if words[start].startswith("--") else 1)
    options: list[tuple[str, str]] = []
    arguments: list[str] = []
    at = first
    while at < len(words) and words[at] not in _ENDS:
        word = words[at]
        at += 1
        name, equals, value = word.partition("=")
        if not name.startswith("-") or name.strip("-") == "":
            arguments.append(word)
            continue
        name = _SHORT.get(name, name.lstrip("-").replace("-", "_"))
        if not equals and name not in _FLAGS and at < len(words) and not _ends_value(words[at]):
            value, at = words[at], at + 1
        options.append((name, value))
    begins = tuple(words[start:first])
    return CommandLine(line, program if begins else "", begins, tuple(options), tuple(arguments)), words[at + 1 :]


def _ends_value(word: str) -> bool:
    """Tell whether a word is no value of the option before it. A negative number is one."""
    return word in _ENDS or (word.startswith("-") and not word[1:2].isdigit())
