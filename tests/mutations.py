"""Damage for the tests of readers: files changed by bytes, and JSON documents changed where their structure is.

`mutated(path, seed)` returns the bytes of a file with one damage. The same seed damages the same file alike.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

ODD: tuple[Callable[[], Any], ...] = (
    lambda: None, lambda: True, lambda: -1, lambda: 0, lambda: 1 << 40, lambda: 1 << 70, lambda: 10**400,
    lambda: 1e308, lambda: float("nan"), lambda: float("inf"), lambda: "", lambda: "x", lambda: "\ud800",
    lambda: "../../../etc/passwd", lambda: "a" * 100_000, lambda: "\0", lambda: [], lambda: {}, lambda: [[]],
    lambda: {"": None}, lambda: [1, "a", None], lambda: _deep(200), lambda: {"type": []},
)  # fmt: skip
"""Values to put in the place of others."""


def _deep(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def mutated(path: Path, seed: int) -> bytes:
    """Return the content of a file with one damage."""
    content, chance = path.read_bytes(), random.Random(seed)
    as_document = path.suffix in {".json", ".ipynb", ".yaml"} and seed % 3
    return document(content, chance) if as_document else octets(content, chance)


def octets(content: bytes, chance: random.Random) -> bytes:
    """Return bytes that are cut short, flipped, repeated, taken out, or overwritten."""
    if not content:
        return b"\0"
    at, other = chance.randrange(len(content)), chance.randrange(len(content))
    first, last = sorted((at, other))
    return chance.choice(
        (
            content[:at],
            content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :],
            content[:at] + chance.randbytes(8) + content[at + 8 :],
            content[:at] + b"\xff" * 8 + content[at + 8 :],
            content[:at] + b"\0" * 16 + content[at + 16 :],
            content[:last] + content[first : first + 4096] + content[last:],
            content[:first] + content[min(last, first + 4096) :],
            content[:at] + b"[" * 100_000,
            content + content,
        )
    )


def document(content: bytes, chance: random.Random) -> bytes:
    """Return a JSON text in which one value is another, is gone, is there twice, or stands under another name."""
    try:
        value = json.loads(content)
    except ValueError:
        return octets(content, chance)
    places = list(_places(value))
    holder, key = chance.choice(places) if places else (None, None)
    odd = chance.choice(ODD)()
    if holder is None:
        value = odd
    else:
        how = chance.randrange(5)
        if how == 0 and isinstance(holder, dict):
            del holder[key]
        elif how == 1 and isinstance(holder, dict):
            holder[chance.choice(list(holder))] = copy.deepcopy(holder[key])
        elif how == 2 and isinstance(holder, list):
            holder.extend(copy.deepcopy(holder))
        elif how == 3:
            holder[key] = {"0": holder[key]} if chance.random() < 0.5 else [holder[key]]
        else:
            holder[key] = odd
    return json.dumps(value).encode()


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)
