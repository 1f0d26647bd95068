"""Where the parts of JSON text begin and end: objects, the list of events, the border between two events."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]]', re.DOTALL)
"""A whole string, a quote that no other closes, a bracket."""
BETWEEN = re.compile(rb'\s*,\s*\{\s*"[^"\\]*"')
WIDEST = 1 << 20
"""Bytes of one event at most where others follow it."""
INNER = 4
"""Objects in one event that look like the border of two events, where reading goes on behind damage."""
SPACE = re.compile(rb"[\s,]*")


def end_of_object(text: bytes, start: int, limit: int | None = None) -> int | None:
    """Return where the object that begins at `start` ends; None where the text, or the limit, ends before it."""
    depth = 0
    for token in TOKEN.finditer(text, start, len(text) if limit is None else min(start + limit, len(text))):
        first = text[token.start()]
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
            if depth <= 0:
                return token.end()
        elif token.end() - token.start() == 1:
            return None
    return None


def border_of(text: bytes) -> bytes | None:
    """Return the bytes from the end of the first event to the first key of the second; None for fewer events."""
    start = text.find(b"{")
    end = end_of_object(text, start) if start >= 0 else None
    between = BETWEEN.match(text, end) if end is not None else None
    return text[end - 1 : between.end()] if end is not None and between else None


def start_of_events(text: bytes) -> int | None:
    """Return where the list of events begins, after its bracket: the whole text's, or that of `traceEvents`."""
    if text.lstrip()[:1] == b"[":
        return text.index(b"[") + 1
    depth, key = 0, b""
    for token in TOKEN.finditer(text):
        word = token[0]
        if word == b"[" and depth == 1 and key == b'"traceEvents"':
            return token.end()
        if word in {b"{", b"["}:
            depth += 1
        elif word in {b"}", b"]"}:
            depth -= 1
        elif len(word) == 1:
            return None
        elif depth == 1:
            key = word
    return None


@dataclass(slots=True)
class Piecewise:
    """What reading a part of a list event by event gave."""

    events: list[Any]
    damaged: int
    """Bytes that are no events."""
    rest: int
    """Where the text begins that was not used: an event that is not whole, or what follows the list."""
    closed: bool
    """Whether the list has ended."""


Read = Callable[[bytes], list[Any]]
"""Events of a JSON array; raises ValueError where it is none."""


def piecewise(text: bytes, border: bytes | None, read: Read, *, is_last: bool) -> Piecewise:
    """Read the inside of a list event by event, and go on behind what is no event.

    An event that is not whole waits for more text, unless this is the last or the event is wider than `WIDEST`: then
    one of its quotes or brackets is missing.
    """
    found = Piecewise([], 0, _past_space(text, 0), closed=False)
    while found.rest < len(text) and not found.closed:
        place = found.rest
        if text[place : place + 1] == b"]":
            found.rest, found.closed = place + 1, True
            break
        limit = _narrow(text, place, border) if found.damaged else WIDEST
        end = end_of_object(text, place, limit) if text[place : place + 1] == b"{" else place
        events = _event(text[place:end], read) if end else None
        if end and events is not None:
            found.events += events
            found.rest = _past_space(text, end)
            continue
        if end is None and not is_last and len(text) - place <= WIDEST:
            break
        next_place = _next_event(text, place + 1, border, read)
        if next_place is None:
            break
        found.damaged += next_place - place
        found.rest = next_place
    return found


def _event(text: bytes, read: Read) -> list[Any] | None:
    """Return a list with the event of a text, or without where it is another object; None where it is no JSON."""
    try:
        return read(b"[" + text + b"]") if text else None
    except ValueError:
        return None


def _past_space(text: bytes, place: int) -> int:
    return SPACE.match(text, place).end()  # type: ignore[union-attr]  # it matches the empty text


def _next_event(text: bytes, place: int, border: bytes | None, read: Read) -> int | None:
    """Return where the next whole event with a time begins: objects inside an event may look like its border, too."""
    while border and (place := text.find(border, place) + 1):
        start = place - 1 + border.index(b"{")
        end = end_of_object(text, start, _narrow(text, start, border))
        if end is not None and b'"ts"' in text[start:end] and _event(text[start:end], read) is not None:
            return start
    return None


def _narrow(text: bytes, start: int, border: bytes | None) -> int:
    """Return how many bytes an event has that ends before `INNER` more borders.

    In damaged text, reading further would pair quotes of different events, again from each of its events.
    """
    limit = start
    for _ in range(INNER):
        limit = text.find(border, limit + 1) if border else -1
        if limit < 0:
            return WIDEST
    return limit + 1 - start
