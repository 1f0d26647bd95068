"""`tell`: print lines that people read, in their language. English stays byte for byte as it was written."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import click
from rich.cells import cell_len

from jumar.base.text.language import chosen, translate

_LINE = re.compile(r"(\s*)(jumar: )?(?:([A-Za-z\d][\w :.,-]{0,30}?)(  +))?(.*)", re.DOTALL)
"""Indent, the program's name, a label with its column, and the text."""
_CLOSING = "，。：；！？、）」』”’,.:;!?)"
_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_PIECE = re.compile(rf"(?:[{_WIDE}（「『“]|[^\s{_WIDE}]+)[{_CLOSING}]*\s*")
"""What is never broken: a word, or one Chinese character, with the punctuation that may not begin a line."""


def tell(text: str = "", *, err: bool = False, **style: Any) -> None:
    """Print `text`, translated line by line; `style` is that of `click.style`."""
    click.secho(told_lines(text), err=err, **style)


def told_lines(text: str) -> str:
    """Return `text` in the user's language: indents, names before a colon and columns of labels stay where they are."""
    return text if chosen() == "en" else "\n".join(_told(line) for line in text.split("\n"))


def _told(line: str) -> str:
    match = _LINE.fullmatch(line)
    if match is None:
        return line
    indent, name, label, space, said = match.groups("")
    word = translate(label)
    gap = " " * max(len(label) + len(space) - cell_len(word), 1) if label else ""
    return f"{indent}{name}{word}{gap}{translate(said)}"


def pieces(text: str) -> list[str]:
    """Return `text` in pieces between which a line may be broken: after spaces, and around Chinese characters."""
    return _PIECE.findall(text)


def wrapped_lines(text: str, width: int, indent: str = "") -> list[str]:
    """Return `text`, translated, in lines of at most `width` columns, each with `indent`."""
    if chosen() == "en":
        return textwrap.wrap(
            text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    lines = [""]
    for piece in pieces(told_lines(text)):
        if lines[-1] and cell_len(indent + lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [indent + line.rstrip() for line in lines if line.strip()]
