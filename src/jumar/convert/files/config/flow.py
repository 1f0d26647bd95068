"""Scans bracketed values: JSON, YAML's flow style, TOML's arrays and inline tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from jumar.convert.files.config.entries import Entry

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.|\'\')*\'', re.DOTALL)
_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_SPACE_OR_HASH = re.compile(r"(?:\s+|#[^\n]*)+")
_PLAIN = re.compile(r"(?:[^\s,\[\]{}:=\"'#]|[:=](?![\s,\]}])|[ \t]+(?![\s,\[\]{}:=#]))+")
_NUMBER = re.compile(r"[-+\w.]+(?=[\s,\]}])(?!\s*[^\s,\]}])")
"""A word that the next comma or bracket ends; the common case, and quicker than `_PLAIN`."""
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_MAX_DEPTH = 200


@dataclass(slots=True)
class _Frame:
    """One open bracket: its kind, and the key that waits for its value."""

    is_map: bool
    path: tuple[str, ...]
    key: str | None = None
    key_span: tuple[int, int] | None = None
    expects_value: bool = field(default=False)


def scan_flow(
    text: str, start: int = 0, path: tuple[str, ...] = (), *, hash_comments: bool = False
) -> tuple[list[Entry], int]:
    """Return the values of the bracket at `start`, and the offset after it.

    The text may end, or go wrong, anywhere: what was read until then is returned.
    """
    return _Flow(text, start, path, _SPACE_OR_HASH if hash_comments else _SPACE).read()


def scan_json(text: str) -> Iterator[Entry]:
    """Yield the values of a JSON document (with comments and trailing commas, too)."""
    match = _SPACE.match(text)
    start = match.end() if match is not None else 0
    if start < len(text) and text[start] in "[{":
        yield from scan_flow(text, start)[0]


class _Flow:
    def __init__(self, text: str, start: int, path: tuple[str, ...], space: re.Pattern[str]) -> None:
        self.text = text
        self.at = start
        self.space = space
        self.entries: list[Entry] = []
        self.frames: list[_Frame] = []
        self.outer = path

    def read(self) -> tuple[list[Entry], int]:
        while self.at < len(self.text):
            match = self.space.match(self.text, self.at)
            if match is not None:
                self.at = match.end()
                continue
            self.token(self.text[self.at])
            if not self.frames:
                break
        return self.entries, self.at

    def token(self, char: str) -> None:
        template = _TEMPLATE.match(self.text, self.at) if char == "{" and self.frames else None
        if template is not None:
            self.scalar(template, "plain")
        elif char in "[{":
            self.open(char == "{")
        elif char in "]}":
            self.frames.pop()
            self.at += 1
        elif char == "," and self.frames:
            self.frames[-1].expects_value = False
            self.at += 1
        elif char in ":=" and self.frames[-1].is_map:
            self.frames[-1].expects_value = True
            self.at += 1
        else:
            self.value(char)

    def open(self, is_map: bool) -> None:
        path = self.path() if self.frames else self.outer
        if len(self.frames) >= _MAX_DEPTH:
            self.frames.clear()
            return
        self.frames.append(_Frame(is_map, path))
        self.at += 1

    def path(self) -> tuple[str, ...]:
        frame = self.frames[-1]
        if frame.is_map and frame.key is not None and frame.expects_value:
            return (*frame.path, frame.key)
        return frame.path

    def value(self, char: str) -> None:
        quoted = _QUOTED.match(self.text, self.at) if char in "\"'" else None
        if quoted is not None:
            self.scalar(quoted, "quoted")
            return
        plain = _NUMBER.match(self.text, self.at) or _PLAIN.match(self.text, self.at)
        if plain is None:
            self.at += 1
        else:
            self.scalar(plain, "plain")

    def scalar(self, match: re.Match[str], style: str) -> None:
        inner = 1 if style == "quoted" else 0
        start, end = match.start() + inner, match.end() - inner
        frame = self.frames[-1]
        self.at = match.end()
        if frame.is_map and not frame.expects_value:
            frame.key, frame.key_span = self.text[start:end], (start, end)
            return
        self.entries.append(
            Entry(
                path=self.path(),
                value=self.text[start:end],
                start=start,
                end=end,
                style="quoted" if style == "quoted" else "plain",
                key_span=frame.key_span if frame.is_map else None,
            )
        )
