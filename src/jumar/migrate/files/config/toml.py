"""Scanners of TOML and INI files, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jumar.migrate.files.config.entries import Entry
from jumar.migrate.files.config.flow import scan_flow

_HEADER = re.compile(r"[ \t]*\[\[?([^\]\r\n]*)\]\]?")
_BARE = r"""(?:[A-Za-z0-9_-]+|"[^"\r\n]*"|'[^'\r\n]*')"""
_KEY = re.compile(rf"[ \t]*({_BARE}(?:[ \t]*\.[ \t]*{_BARE})*)[ \t]*=[ \t]*")
_PART = re.compile(_BARE)
_MULTILINE = re.compile(r'"""(.*?)"""|\'\'\'(.*?)\'\'\'', re.DOTALL)
_STRING = re.compile(r'"((?:[^"\\\r\n]|\\.)*)"|\'([^\'\r\n]*)\'')
_PLAIN = re.compile(r"[^\s#,]+")
_REST = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)?")
_INI_KEY = re.compile(r"([^\s#;=:\[][^=:\r\n]*?)[ \t]*[=:][ \t]*")
_INI_VALUE = re.compile(r"[ \t]*([^\s#;][^\r\n]*?)[ \t]*(?=\r|\n|$)")


def scan_toml(text: str) -> Iterator[Entry]:
    """Yield the values of a TOML document, in order."""
    at = 0
    table: tuple[str, ...] = ()
    while at < len(text):
        header, key = _HEADER.match(text, at), _KEY.match(text, at)
        if header is not None:
            table = _parts(header.group(1))
        elif key is not None:
            entries, end = _toml_value(text, key.end(), (*table, *_parts(key.group(1))), key.span(1))
            yield from entries
            at = max(end, at)
        rest = _REST.match(text, at)
        at = max(rest.end() if rest is not None else len(text), at + 1)


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(name))


def _toml_value(text: str, at: int, path: tuple[str, ...], key: tuple[int, int]) -> tuple[list[Entry], int]:
    if at < len(text) and text[at] in "[{":
        return scan_flow(text, at, path, hash_comments=True)
    for pattern in (_MULTILINE, _STRING, _PLAIN):
        match = pattern.match(text, at)
        if match is not None:
            break
    else:
        return [], at
    group = next((index for index in range(1, (match.lastindex or 0) + 1) if match.group(index) is not None), 0)
    entry = Entry(
        path=path, value=match.group(group), start=match.start(group), end=match.end(group),
        style="plain" if group == 0 else "quoted", key_span=key,
    )  # fmt: skip
    return [entry], match.end()


def scan_ini(text: str) -> Iterator[Entry]:
    """Yield the values of an INI file, in order; each further line of a value is an item of its key."""
    at, section = 0, ""
    path: tuple[str, ...] = ()
    while at < len(text):
        header = _HEADER.match(text, at)
        key = _INI_KEY.match(text, at)
        value_at, span = at, None
        if header is not None:
            section, path = header.group(1), ()
        elif key is not None:
            path, value_at, span = (section, key.group(1)), key.end(), key.span(1)
        value = _INI_VALUE.match(text, value_at) if header is None and path else None
        if value is not None and (span is not None or text[at] in " \t"):
            yield Entry(
                path=path, value=value.group(1), start=value.start(1), end=value.end(1), style="plain", key_span=span
            )
        rest = _REST.match(text, at)
        at = max(rest.end() if rest is not None else len(text), at + 1)
