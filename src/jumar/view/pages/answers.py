"""`Answer`: what a page says, apart from HTTP. `Query`: what was asked, read without trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LONGEST = 400
"""Characters of one value of an address that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A template with its values, or JSON where there is none."""

    template: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    status: int = 200
    seen: str = ""
    """Of a part that is asked for again and again: names its contents; who has them already gets nothing."""
    raw: bytes | None = None
    """A saved page, sent in a sandbox."""


@dataclass(frozen=True, slots=True)
class Query:
    """The values behind the question mark of an address."""

    values: Mapping[str, Sequence[str]]

    def text(self, name: str) -> str:
        """Return a value; empty where there is none."""
        return next(iter(self.values.get(name, ())), "")[:LONGEST]

    def texts(self, name: str) -> list[str]:
        """Return all values of a name, each once."""
        return list(dict.fromkeys(value[:LONGEST] for value in self.values.get(name, ()) if value))

    def number(self, name: str) -> int | None:
        """Return a whole number from 0 on; None for anything else."""
        text = self.text(name)
        return int(text) if text.isdecimal() and text.isascii() and len(text) < 16 else None

    def chosen(self, name: str, choices: Sequence[str]) -> str:
        """Return a value that is one of the choices; empty for another one."""
        text = self.text(name)
        return text if text in choices else ""


def message(
    title: str, sentence: str, *, status: int = 200, state: str = "failed", links: Sequence[tuple[str, str]] = ()
) -> Answer:
    """Return a page with one sentence: what is wrong, and where to go."""
    context = {"title": title, "sentence": sentence, "state": state, "links": links}
    return Answer(template="message.html", context=context, status=status)


def missing(
    what: str = "There is no such result in this folder. It was moved or removed, or its kind changed.",
) -> Answer:
    """Return the page for what is not there."""
    return message("Not found", what, status=404, links=[("/", "All results")])
