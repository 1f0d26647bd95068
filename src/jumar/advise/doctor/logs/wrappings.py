"""What a log's lines say, without what terminals and collectors of logs put around it: `unwrapped`.

Colours go; what a progress bar wrote over is a line of its own; of a JSON line the texts count.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO, cast

from jumar.advise.doctor.logs.words import names_error

COLOURS = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""What terminals take for colours and other commands."""
_RETURN = re.compile(rb"\r(?!\r*(?:\n|\Z))")
_JSON = re.compile(rb'\{\s*"')
_TEXTS = frozenset({"log", "msg", "message", "text", "event", "line", "body"})
"""Names of values that are what the program printed."""
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
    """Yield what the program printed, and every other value that names an error or holds several lines."""
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _texts(value, prefix)
        elif isinstance(value, str) and name.lower() in _TEXTS:
            yield from (prefix + line for line in value.splitlines())
        elif isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            yield from (line for item in value for line in item.splitlines())
        elif value:
            lines = f"{name}: {value if isinstance(value, str) else json.dumps(value)}".rstrip().splitlines()
            if len(lines) > 1 or names_error(lines[0]):
                yield from lines
