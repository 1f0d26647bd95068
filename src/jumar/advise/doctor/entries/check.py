"""`check_entries`: whether entries recognise what they should, and nothing else.

Each entry is held against its own example and against lines that no entry may recognise (`data/ordinary.txt`). Its
pattern is timed on lines that grow until it is slow: a log may hold lines of megabytes.
"""

from __future__ import annotations

import functools
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources

from jumar.advise.doctor.entries.learn import UNKNOWN_ACTION, UNKNOWN_CAUSE
from jumar.advise.doctor.entries.signature import Signature
from jumar.advise.doctor.entries.table import Table

SLOW_S = 0.1
"""A pattern that takes longer on one line of `_MOST_CHARACTERS` would hold up the reading of a log."""
_MOST_CHARACTERS = 4000
_SHORT_CHARACTERS = 64
_FILLINGS = ("a", "A", "0", " ", "/", ".", "_", ",", "'", "a ", "0.", "a0")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFault:
    """A rule that an entry breaks."""

    entry: str
    rule: str
    detail: str


@functools.cache
def ordinary_lines() -> tuple[str, ...]:
    """Return lines of runs without a fault, with tempting words."""
    file = resources.files("jumar.advise.doctor") / "data" / "ordinary.txt"
    return tuple(line for line in file.read_text("utf-8").splitlines() if line.strip())


def check_entries(signatures: Sequence[Signature], *, ordinary: Sequence[str] = ()) -> tuple[EntryFault, ...]:
    """Return what is wrong with the entries; nothing where all is well. `ordinary` lines come beside the usual ones."""
    names = Counter(signature.name for signature in signatures)
    lines = (*ordinary_lines(), *ordinary)
    faults: list[EntryFault] = []
    for signature in signatures:
        faults += [
            EntryFault(entry=signature.name, rule=rule, detail=detail)
            for rule, detail in _broken(signature, names, lines)
        ]
    return tuple(faults)


def _broken(signature: Signature, names: Counter[str], ordinary: Sequence[str]) -> Iterator[tuple[str, str]]:
    if names[signature.name] > 1:
        yield "its name is its own", f"{names[signature.name]} entries have it"
    if signature.needle and signature.needle not in signature.example:
        yield "its needle stands in its example", signature.needle
    yield from _broken_search(signature, ordinary)
    missing = sorted(set(signature.over) - names.keys())
    if missing:
        yield "`over` names entries that are there", ", ".join(missing)
    if signature.cause == UNKNOWN_CAUSE or signature.action == UNKNOWN_ACTION:
        yield "cause and action are filled in", "they are still those of --learn"
    slow = slow_line(signature.pattern, signature.example)
    if slow:
        yield "its pattern is fast on every line", slow


def _broken_search(signature: Signature, ordinary: Sequence[str]) -> Iterator[tuple[str, str]]:
    table = Table((signature,))
    if not _finds(table, signature.example):
        yield "it recognises its own example", signature.example
    if signature.role == "harmless":
        return
    hit = next((line for line in ordinary if _finds(table, line)), None)
    if hit is not None:
        yield "it recognises no ordinary line", hit


def _finds(table: Table, line: str) -> bool:
    return any(match.signature is not None for match in table.searcher(line.encode()).search(line))


def slow_line(pattern: str, example: str = "") -> str:
    """Return what line a pattern takes too long for, empty where there is none.

    Lines grow in small steps, so that a pattern whose time doubles with each character is seen before it takes minutes.
    """
    compiled = re.compile(pattern)
    for filling in dict.fromkeys((*_FILLINGS, *_pieces(example))):
        for head in ("", example):
            size = 8
            while size <= _MOST_CHARACTERS:
                line = head + (filling * size)[:size] + "\x00"
                seconds = _seconds(compiled, line)
                if seconds > SLOW_S:
                    return f"{seconds:.2g} s for {len(line)} characters of {filling!r}"
                size = size + 4 if size < _SHORT_CHARACTERS else size * 2
    return ""


def _pieces(example: str) -> list[str]:
    """Return the words of an example with what follows each: what its pattern repeats is most likely among them."""
    return re.findall(r"\w+\W?", example)[:12]


def _seconds(pattern: re.Pattern[str], line: str) -> float:
    start = time.process_time()
    pattern.search(line)
    return time.process_time() - start
