"""What a log's lines say, without what terminals and collectors of logs put around it: `unwrapped`.

Colours go; what a progress bar wrote over is a line of its own; of a JSON line the texts count.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, cast

from jumar.advise.doctor.logs.lines.prefixes import LEVELS, peeled
from jumar.advise.doctor.logs.words import names_error

COLOURS = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""What terminals take for colours and other commands."""
_RETURN = re.compile(rb"\r(?!\r*(?:\n|\Z))")
_JSON = re.compile(rb'\{\s*"')
_TEXTS = frozenset({"log", "msg", "message", "text", "event", "line", "body"})
"""Names of values that are what the program printed."""
_LEVELS = frozenset({"level", "levelname", "lvl", "severity", "log.level", "loglevel", "severity_text"})
_MEANINGS = {name: level for level, names in LEVELS.items() for name in names if len(name) > 1}
_HEAD_BYTES = 1024


def as_utf_8(file: BinaryIO) -> BinaryIO:
    """Return the file so that it reads as UTF-8, where its first bytes say that it is UTF-16."""
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return file
    try:
        text = head.decode("utf-16")
    except UnicodeDecodeError:  # bytes that are no text
        return file
    is_text = "\n" in text or text.isascii()
    return cast(BinaryIO, codecs.EncodedFile(file, "utf-8", "utf-16", "replace")) if is_text else file


def unwrapped(data: bytes) -> tuple[bytes, list[int] | None]:
    """Return the lines that the program printed, and for each the index of its line in `data`.

    The indices are None where every line of `data` is one line.
    """
    if b"\x1b" in data:
        data = COLOURS.sub(b"", data)
    if not (_RETURN.search(data) or _JSON.search(data)):
        return data, None
    pieces: list[str] = []
    indices: list[int] = []
    for index, line in enumerate(lines_of(data)):
        for piece in _pieces(line):
            pieces.append(piece)
            indices.append(index)
    return "\n".join(pieces).encode("utf-8", "replace"), indices


def lines_of(data: bytes) -> list[str]:
    """Return the lines of a block, as editors count them."""
    return data.decode("utf-8", "replace").removesuffix("\n").split("\n")


def _pieces(line: str) -> Iterator[str]:
    for part in line.rstrip("\r").split("\r"):
        start = part.find("{")
        document = _document(part[start:]) if start >= 0 else None
        if document is None:
            yield part
        else:
            yield from _texts(document, part[:start])


def _document(text: str) -> Mapping[str, object] | None:
    """Return the JSON object that `text` is, or None."""
    if not text.rstrip().endswith("}"):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _texts(document: Mapping[str, object], prefix: str) -> Iterator[str]:
    """Yield what the program printed, then every other value that names an error or holds several lines."""
    level = _level(document)
    has_text = False
    for name, value in document.items():
        if isinstance(value, str) and name.lower() in _TEXTS and value.strip():
            has_text = True
            yield from _behind(prefix, level, value.splitlines())
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _texts(value, prefix)
        elif isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            yield from (line for item in value for line in item.splitlines())
        elif (
            value
            and not (name.lower() in _TEXTS and isinstance(value, str))
            and not (has_text and name.lower() in _LEVELS)
        ):
            lines = f"{name}: {value if isinstance(value, str) else json.dumps(value)}".rstrip().splitlines()
            if len(lines) > 1 or names_error(lines[0]):
                yield from lines


def _behind(prefix: str, level: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield lines with what stood before the document: before each where a launcher wrote it, else before the first."""
    is_launchers = peeled(f"{prefix}x").text == "x"
    for index, line in enumerate(lines):
        before = prefix if is_launchers or index == 0 else ""
        yield f"{before}{level}{line}"


def _level(document: Mapping[str, object]) -> str:
    """Return the level that a document names, as a logger prints it; empty where it names none."""
    value = next((value for name, value in document.items() if name.lower() in _LEVELS), None)
    if isinstance(value, int) and not isinstance(value, bool):  # pino, bunyan
        value = {30: "info", 40: "warning", 50: "error", 60: "error"}.get(value)
    meaning = _MEANINGS.get(value.upper()) if isinstance(value, str) else None
    return f"{meaning.upper()} " if meaning else ""
