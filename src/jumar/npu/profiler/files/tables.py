"""What the writers share: times as text, CSV files, unions of spans."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Span = tuple[int, int]


def us_text(epoch_ns: int, at_ns: int, tail: str = "") -> str:
    """Return an absolute time in microseconds with three decimals, as text: no float holds it exactly."""
    absolute = epoch_ns + at_ns
    return f"{absolute // 1000}.{absolute % 1000:03d}{tail}"


def us(duration_ns: float) -> float:
    """Return nanoseconds as microseconds, rounded to three decimals."""
    return round(duration_ns / 1e3, 3)


def write_csv(path: Path, headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write one table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(headers)
        writer.writerows(rows)


def difference(spans: Sequence[Span], taken: Sequence[Span]) -> list[Span]:
    """Return the parts of the union `spans` that are not in the union `taken`."""
    left: list[Span] = []
    for begin, end in spans:
        start = begin
        for low, high in taken:
            if high <= start or low >= end:
                continue
            if low > start:
                left.append((start, low))
            start = max(start, high)
        if start < end:
            left.append((start, end))
    return left


def gaps(spans: Sequence[Span]) -> list[Span]:
    """Return what lies between the spans of a union."""
    return [(before[1], after[0]) for before, after in itertools.pairwise(spans) if after[0] > before[1]]


def length(spans: Iterable[Span]) -> int:
    """Return the sum of the spans' lengths."""
    return sum(end - start for start, end in spans)
