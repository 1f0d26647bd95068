"""Decodes files without a declared encoding, so that the text encodes to the same bytes."""

from __future__ import annotations

import codecs
from dataclasses import replace

from jumar.convert.model.text import SourceText

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def decode(data: bytes) -> SourceText:
    """Read `data` by its byte-order mark, else as UTF-8, GB 18030 (GBK), or Latin-1: the first that is lossless.

    Never raises: Latin-1 takes any bytes. GB 18030 is tried before it because the second byte of a
    Chinese character may look like a quote or a backslash.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            text = _lossless(data[len(mark) :], encoding)
            if text is not None:
                return _read(data, text, encoding, mark)
    for encoding in ("utf-8", "gb18030"):
        text = _lossless(data, encoding)
        if text is not None:
            return _read(data, text, encoding)
    return _read(data, data.decode("latin-1"), "latin-1")


def _read(data: bytes, text: str, encoding: str, mark: bytes = b"") -> SourceText:
    return replace(SourceText.of(text), data=data, encoding=encoding, mark=mark)


def _lossless(body: bytes, encoding: str) -> str | None:
    try:
        text = body.decode(encoding)
        return text if text.encode(encoding) == body else None
    except UnicodeError:
        return None
