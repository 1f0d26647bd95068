"""`cut`: of a big log its head, its tail and the lines around its errors; a line says where lines are left out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

HEAD_BYTES, TAIL_BYTES = 2**20, 2 * 2**20
AROUND_LINES = 200
"""Kept before and after each error."""
MOST_ERRORS = 40
LONGEST_LINE = 2**18
_KEPT_OF_LINE = 2**16


@dataclass(slots=True)
class Cut:
    """What became of one text."""

    num_lines: int = 0
    left_out: int = 0
    kept: list[tuple[int, int]] = field(default_factory=list)


def windows(lines: Sequence[int]) -> list[tuple[int, int]]:
    """Return the ranges of lines around errors, joined where they meet."""
    found: list[tuple[int, int]] = []
    for line in sorted(lines)[:MOST_ERRORS]:
        first, last = max(1, line - AROUND_LINES), line + AROUND_LINES
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def cut(
    lines: Iterable[str], told: Cut, errors: Sequence[int] = (), *, head: int = HEAD_BYTES, tail: int = TAIL_BYTES
) -> Iterator[str]:
    """Yield the lines that are kept, in their order; `told` fills. A text of at most `head` + `tail` bytes is whole."""
    ranges = windows(errors)
    held: deque[tuple[int, str]] = deque()
    held_bytes = head_bytes = 0
    writer = _Writer(told)
    for number, line in enumerate(lines, start=1):
        told.num_lines = number
        short = shortened(line)
        size = len(short) + 1
        if not held and head_bytes + size <= head:
            head_bytes += size
            yield from writer.keep(number, short)
            continue
        held.append((number, short))
        held_bytes += size
        while held_bytes > tail and len(held) > 1:
            oldest, text = held.popleft()
            held_bytes -= len(text) + 1
            if any(first <= oldest <= last for first, last in ranges):
                yield from writer.keep(oldest, text)
            else:
                told.left_out += 1
    for number, text in held:
        yield from writer.keep(number, text)
    if not told.left_out:
        told.kept.clear()


class _Writer:
    """Puts a mark where lines are missing."""

    def __init__(self, told: Cut) -> None:
        self._told = told
        self._next = 1

    def keep(self, number: int, text: str) -> Iterator[str]:
        if number > self._next:
            yield f"[jumar: lines {self._next} to {number - 1} are left out]"
        if self._told.kept and number == self._next:
            self._told.kept[-1] = (self._told.kept[-1][0], number)
        else:
            self._told.kept.append((number, number))
        self._next = number + 1
        yield text


def shortened(line: str) -> str:
    """Return a line of ordinary length whole, a gigantic one up to a blank, so that no secret is cut into halves."""
    if len(line) <= LONGEST_LINE:
        return line
    head = line[:_KEPT_OF_LINE]
    head = head[: head.rindex(" ")] if " " in head else ""
    return f"{head} [jumar: {len(line) - len(head)} characters are left out]"
