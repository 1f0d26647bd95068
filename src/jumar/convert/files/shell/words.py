"""What the shell lexer yields: words, commands, expansions and here-documents, by offsets into one text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

HOLE = "\ufffc"
"""Stands in a word's text for one expansion (`$X`, `$(…)`), whose value is not known."""

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_KEYWORDS = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "exec", "command"})


@dataclass(frozen=True, slots=True)
class Word:
    """One word: its text without quotes, and the offset in the source of each of its characters."""

    start: int
    end: int
    text: str
    offsets: tuple[int, ...]
    quoted: bool = False

    @property
    def shown(self) -> str:
        """The text for people."""
        return self.text.replace(HOLE, "$\u2026")

    @property
    def is_known(self) -> bool:
        """Whether the text is what the program gets: it has no expansion."""
        return HOLE not in self.text

    def span_of(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the source span of characters `start` to `end` of the text, None where quotes come between them."""
        if start == end:
            return None
        first, last = self.offsets[start], self.offsets[end - 1]
        return (first, last + 1) if last - first == end - 1 - start else None

    @property
    def assigned(self) -> tuple[str, str] | None:
        """Name and value where the word has the form NAME=value (or NAME+=value)."""
        match = _ASSIGNMENT.match(self.text)
        if match is None or HOLE in match.group():
            return None
        return match.group(1), self.text[match.end() :]

    @property
    def value_index(self) -> int:
        """Index in the text at which the value of `assigned` starts."""
        return self.text.index("=") + 1


@dataclass(frozen=True, slots=True)
class Expansion:
    """A read of a variable; the span is its name's."""

    name: str
    start: int
    end: int


@dataclass(slots=True)
class Command:
    """The words of one simple command, keywords before it left out."""

    words: list[Word] = field(default_factory=list)
    targets: list[tuple[str, Word]] = field(default_factory=list)
    """Redirections: operator and target."""
    here_documents: list[HereDocument] = field(default_factory=list)
    captured: bool = False
    """Its output goes into a variable or argument."""
    piped: bool = False
    """Its output goes into another command."""
    is_array: bool = False
    """It is the elements of an array, not a command."""

    @property
    def prefix(self) -> list[Word]:
        """The assignments before the command's name."""
        found = []
        for word in self.words:
            if word.assigned is None:
                break
            found.append(word)
        return found

    @property
    def arguments(self) -> list[Word]:
        """The command's name and arguments; empty where there are only assignments."""
        return self.words[len(self.prefix) :]

    @property
    def name(self) -> str:
        """The command's name without its folder; empty where there is none."""
        rest = self.arguments
        return rest[0].text.rpartition("/")[2] if rest else ""


@dataclass(slots=True)
class HereDocument:
    """Text that a command gets as its input; the span is the body's."""

    delimiter: str
    literal: bool
    """Whether the delimiter is quoted, so that nothing in the body is expanded."""
    strips_tabs: bool
    start: int = 0
    end: int = 0


@dataclass(slots=True)
class Script:
    """Everything found in one text."""

    commands: list[Command] = field(default_factory=list)
    expansions: list[Expansion] = field(default_factory=list)
    unclosed: int | None = None
    """Offset of a quote that nothing closes; what follows it was not read."""


def without_keywords(words: list[Word]) -> list[Word]:
    """Return the words of a command without the keywords that may stand before it."""
    index = 0
    while index < len(words) and words[index].text in _KEYWORDS and not words[index].quoted:
        index += 1
    return words[index:]
