"""What a tuning run leaves while it goes on: the candidates in its journal, the parts of the vendor's result file."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError
from jumar.tune.measure.worker.messages import Outcome

LIMIT_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Screening:
    """One candidate that was measured, in the order of time."""

    number: int
    of: str
    """What is tuned; empty in a journal of an older release."""
    candidate: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal as far as it is whole: what follows a damaged line is left out."""

    name: str
    screenings: tuple[Screening, ...]
    is_whole: bool


def read_journal(path: Path) -> Journal:
    """Return what a journal holds; its form is told in `jumar.tune.measure.resume`. Raises InputError."""
    size = path.stat().st_size
    if size > LIMIT_BYTES:
        raise InputError(f"{path.name} has {size:,} bytes, and at most {LIMIT_BYTES:,} are read.")
    head, *lines = path.read_bytes().splitlines(keepends=True) or [b""]
    try:
        name = str(json.loads(head)["name"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path.name} is cut short in its first line, or it is no journal of a tuning.") from error
    screenings: list[Screening] = []
    for number, line in enumerate(lines, start=1):
        found = _screening(number, line)
        if found is None:
            return Journal(name, tuple(screenings), is_whole=False)
        screenings.append(found)
    return Journal(name, tuple(screenings), is_whole=True)


def _screening(number: int, line: bytes) -> Screening | None:
    """Return the candidate of a line; None for one that is not whole."""
    try:
        data = json.loads(line) if line.endswith(b"\n") else {}
        if zlib.crc32(f"{data['trial']} {data['outcome']}".encode()) != data["crc"]:
            return None
        outcome = Outcome.from_json(json.loads(data["outcome"]))
        return Screening(number, str(data.get("of", "")), str(data.get("candidate", "")), outcome)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def parts_of(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the parts (`basic`, `OPAT`, `SGAT`) of a vendor's result file. Raises InputError for another form."""
    parts: dict[str, Mapping[str, Any]] = {}
    for value in document.values():
        for part in value if isinstance(value, list) else ():
            parts |= {str(name): inner for name, inner in part.items() if isinstance(inner, dict)}
    if "basic" not in parts:
        raise InputError("the file is no result file of a tuning: it has no part `basic`.")
    return parts
