"""The table of the vendor's tests: counts by folder and by file, from the rows of the runs and what was published."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from outcomes import KINDS, MEANINGS, OUTSIDE


class Row(NamedTuple):
    """One test: its folder, its file, its name, the kind of its result, and what the error says."""

    folder: str
    file: str
    test: str
    kind: str
    text: str
    at: str = ""


def read_rows(results: Path) -> list[Row]:
    """Return the rows of a file of results; of a file of tests that ran several times, those of the last run."""
    if not results.exists():
        return []
    runs: dict[str, dict[str, Row]] = {}
    last = ""
    for line in results.read_text("utf-8").splitlines():
        row = Row(**json.loads(line))
        if row.file != last:
            runs[row.file] = {}
            last = row.file
        runs[row.file][row.test] = row
    return [row for name in sorted(runs) for row in runs[name].values()]


Published = dict[str, Any]
"""What is published: totals, counts by folder and by file, with the day of each file's run, and what did not pass."""

_RUN = "run"


def folder_of(file: str) -> str:
    """Return repository and folder of a file: `op-plugin test/test_base_ops`."""
    repository, first, second, *_ = file.split("/")
    return f"{repository} {first}/{second}"


def _count(rows: list[Row]) -> dict[str, int]:
    counts = collections.Counter(row.kind for row in rows)
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def _sum(files: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    counts: collections.Counter[str] = collections.Counter()
    for found in files:
        counts.update({kind: found[kind] for kind in KINDS if kind in found})
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def share(counts: dict[str, int]) -> float:
    """Return the share of the tests that passed, of those that could run without an NPU."""
    judged = sum(number for kind, number in counts.items() if kind not in OUTSIDE)
    return counts.get("passed", 0) / judged if judged else 1.0


def published(rows: list[Row], soc: str, day: str, before: Published | None = None) -> Published:
    """Return what is published of these rows; files that they do not have stay as they were `before`."""
    names = {row.file for row in rows}
    files: dict[str, dict[str, Any]] = dict(before["files"]) if before else {}
    for name in names:
        files[name] = {_RUN: day, **_count([row for row in rows if row.file == name])}
    kept: dict[str, str] = before["not_passed"] if before else {}
    not_passed = {test: kind for test, kind in kept.items() if test.partition("::")[0] not in names}
    not_passed |= {f"{row.file}::{row.test}": row.kind for row in rows if row.kind not in ("passed", *OUTSIDE)}
    total = _sum(files.values())
    folders = sorted({folder_of(name) for name in files})
    return {
        "soc": soc,
        "num_files": len(files),
        "counts": total,
        "share_passed": round(share(total), 4),
        "folders": {folder: _sum(_within(files, folder)) for folder in folders},
        "files": dict(sorted(files.items())),
        "not_passed": dict(sorted(not_passed.items())),
    }


def _within(files: Mapping[str, dict[str, Any]], folder: str) -> list[dict[str, Any]]:
    return [found for name, found in files.items() if folder_of(name) == folder]


def summary(rows: list[Row]) -> str:
    """Return the counts as lines for a terminal."""
    counts = _count(rows)
    lines = [f"{number:7d}  {MEANINGS[kind]}" for kind, number in counts.items()]
    return "\n".join([*lines, f"{share(counts):7.1%}  of what can run without an NPU passes", ""])


def markdown(found: Published) -> str:
    """Return the table by folder, the days of the runs, and each file with a test that did not pass."""
    files = found["files"]
    kinds = [kind for kind in KINDS if found["counts"].get(kind)]
    head = "| folder | files | " + " | ".join(MEANINGS[kind] for kind in kinds) + " | passes |"
    lines = [head, "|---|---:|" + "---:|" * (len(kinds) + 1)]
    for name, counts in {**found["folders"], "all": found["counts"]}.items():
        numbers = " | ".join(str(counts.get(kind, 0)) for kind in kinds)
        num = len(files) if name == "all" else len(_within(files, name))
        lines.append(f"| {name} | {num} | {numbers} | {share(counts):.1%} |")
    days = collections.Counter(file[_RUN] for file in files.values())
    lines += [
        "",
        "Files by the day of their run: " + ", ".join(f"{day} {num}" for day, num in sorted(days.items())) + ".",
    ]
    lines += ["", "| file | tests that did not pass |", "|---|---|"]
    for name, counts in files.items():
        bad = {kind: counts[kind] for kind in KINDS if kind in counts and kind not in ("passed", *OUTSIDE)}
        if bad:
            said = ", ".join(f"{number} {MEANINGS[kind]}" for kind, number in bad.items())
            lines.append(f"| {name} | {said}, of {sum(_sum([counts]).values())} |")
    return "\n".join(lines) + "\n"
