"""JSON of profilers: whole documents of a bounded size, and the events of a list one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError
from jumar.timeline.chrome.document import Document
from jumar.timeline.model.source import OnProgress
from jumar.timeline.vendor.text.losses import Losses

LARGEST_DOCUMENT = 256 << 20
"""Bytes of a document that is read as a whole."""
_DECODER = json.JSONDecoder(strict=False, parse_float=str)
"""Control characters in texts pass, and numbers with a point stay text: their last digits are nanoseconds."""


def document(path: Path, losses: Losses) -> Any:
    """Return a whole document, numbers with a point as text; None where it cannot be read. Raises OSError."""
    if path.stat().st_size > LARGEST_DOCUMENT:
        losses.say(path.name, f"not read, it has {path.stat().st_size} bytes; at most {LARGEST_DOCUMENT} are read.")
        return None
    text = path.read_text("utf-8-sig", errors="replace")
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        losses.say(path.name, f"not read, it is no whole JSON document ({str(error)[:80]}).")
        return None


def events(path: Path, losses: Losses, on_progress: OnProgress | None = None) -> Iterator[dict[str, Any]]:
    """Yield the events of a trace one after the other, numbers with a point as text or decimals.

    Damage costs the events it lies in and is told. A file that cannot be opened, or has no events, is a loss, too.
    """
    reader = Document(path, on_progress)
    try:
        for found in reader.events("whole"):
            losses.read(path.name, len(found))
            yield from found
    except InputError as error:
        losses.say(path.name, f"not read: {str(error).rstrip('.')}.")
        return
    for sentence in reader.lost:
        losses.say(path.name, f"{sentence.rstrip('.')}.")
