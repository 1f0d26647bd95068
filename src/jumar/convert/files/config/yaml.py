"""Scans YAML by lines and indentation. Templates and broken documents are scanned too."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jumar.convert.files.config.entries import Entry
from jumar.convert.files.config.flow import scan_flow

_LINE = re.compile(r"[^\r\n]*")
_LINE_END = re.compile(r"\r\n|\r|\n")
_DASH = re.compile(r"-(?:[ \t]+|(?=\r|\n|$))")
_KEY = re.compile(
    r"""(?:"((?:[^"\\\r\n]|\\[^\r\n])*)"|'((?:[^'\r\n]|'')*)'|([^\s#\[\]{}&*!|>'"%@`,-][^#\r\n]*?|-[^\s#][^#\r\n]*?))"""
    r"[ \t]*:(?=[ \t\r\n]|$)[ \t]*"
)
_PROPERTY = re.compile(r"(?:[&!][^\s,\[\]{}]*[ \t]*)+")
_BLOCK = re.compile(r"[|>][-+0-9]*[ \t]*(?:#[^\r\n]*)?(?=\r|\n|$)")
_DOUBLE = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SINGLE = re.compile(r"'(?:[^']|'')*'")
_PLAIN = re.compile(r"(?:[^\s#]|(?<=\S)#|[ \t]+(?![\s#]|$))+", re.MULTILINE)
_SKIPPED = re.compile(r"[ \t]*(?:#|---|\.\.\.|%|\{%|\{#|\r|\n|$)")


def scan_yaml(text: str) -> Iterator[Entry]:
    """Yield the values of a YAML stream, in order."""
    yield from _Yaml(text).read()


class _Yaml:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.keys: list[tuple[int, str]] = []
        """Indentation and name of the keys around the current line."""

    def read(self) -> Iterator[Entry]:
        while self.at < len(self.text):
            start = self.at
            if _SKIPPED.match(self.text, start):
                self.skip_line()
            else:
                indent = self.indentation(start)
                self.at = start + indent
                yield from self.node(start)
            self.at = max(self.at, start + 1)

    def indentation(self, start: int) -> int:
        at = start
        while at < len(self.text) and self.text[at] in " \t":
            at += 1
        return at - start

    def skip_line(self) -> None:
        match = _LINE.match(self.text, self.at)
        end = match.end() if match is not None else len(self.text)
        newline = _LINE_END.match(self.text, end)
        self.at = newline.end() if newline is not None else len(self.text)

    def node(self, line: int) -> Iterator[Entry]:
        """Read the rest of a line: dashes, a key, a value."""
        block_indent = self.at - line
        dash = _DASH.match(self.text, self.at)
        while dash is not None:
            column = self.at - line
            while self.keys and self.keys[-1][0] > column:
                self.keys.pop()
            self.at, block_indent = dash.end(), column
            dash = _DASH.match(self.text, self.at)
        key = _KEY.match(self.text, self.at)
        if key is None:
            yield from self.value(block_indent, None)
            return
        column = self.at - line
        while self.keys and self.keys[-1][0] >= column:
            self.keys.pop()
        group = next(index for index in (1, 2, 3) if key.group(index) is not None)
        self.keys.append((column, key.group(group)))
        self.at = key.end()
        yield from self.value(column, key.span(group))

    def value(self, indent: int, key_span: tuple[int, int] | None) -> Iterator[Entry]:
        prefix = _PROPERTY.match(self.text, self.at)
        if prefix is not None:
            self.at = prefix.end()
        char = self.text[self.at] if self.at < len(self.text) else "\n"
        if char in "\r\n#*":
            self.skip_line()
        elif _BLOCK.match(self.text, self.at):
            yield from self.block(indent, key_span)
        elif char in "[{" and not self.text.startswith("{{", self.at) and not self.text.startswith("{%", self.at):
            yield from self.flow()
        else:
            yield from self.scalar(char, key_span)
            self.skip_line()

    def path(self) -> tuple[str, ...]:
        return tuple(key for _, key in self.keys)

    def flow(self) -> Iterator[Entry]:
        entries, end = scan_flow(self.text, self.at, self.path(), hash_comments=True)
        yield from entries
        self.at = max(end, self.at + 1)
        self.skip_line()

    def scalar(self, char: str, key_span: tuple[int, int] | None) -> Iterator[Entry]:
        pattern = {'"': _DOUBLE, "'": _SINGLE}.get(char, _PLAIN)
        match = pattern.match(self.text, self.at) or _PLAIN.match(self.text, self.at)
        if match is None:
            return
        inner = 1 if match.re is not _PLAIN else 0
        start, end = match.start() + inner, match.end() - inner
        self.at = match.end()
        yield Entry(
            path=self.path(), value=self.text[start:end], start=start, end=end,
            style="quoted" if inner else "plain", key_span=key_span,
        )  # fmt: skip

    def block(self, indent: int, key_span: tuple[int, int] | None) -> Iterator[Entry]:
        """Read a block scalar: the lines below that are indented more than its key."""
        self.skip_line()
        start = end = self.at
        while self.at < len(self.text):
            width = self.indentation(self.at)
            blank = self.at + width >= len(self.text) or self.text[self.at + width] in "\r\n"
            if not blank and width <= indent:
                break
            self.skip_line()
            end = end if blank else self.at
        if end > start:
            yield Entry(
                path=self.path(), value=self.text[start:end], start=start, end=end, style="block", key_span=key_span
            )
