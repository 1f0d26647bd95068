"""`pair_of`, `pythons_of` and `drivers_of`: which versions the vendor's tables name together.

The tables are data (`data/versions.json`) with their date and the document of each.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

_CANDIDATE = 1_000
"""A release candidate stands before its release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The CANN releases that go with a torch_npu."""

    torch_npu: str
    cann: tuple[str, ...]
    """Those that it was released with, the newest first."""
    compatible: tuple[str, ...]
    """Others that the vendor's table of compatibility names."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drivers:
    """The drivers (Ascend HDK) that go with a CANN."""

    cann: str
    hdk: tuple[str, ...]
    """First two numbers of each, rising."""
    least: str
    source: str


def pair_of(torch_npu: str) -> Pair | None:
    """Return what goes with this version of torch_npu; None when no table names it."""
    plain = re.split(r"[+]|\.dev", torch_npu.strip())[0]
    rows = [row for row in _tables()["torch_npu"] if row["torch_npu"] == plain]
    if not rows:
        return None
    releases = {row["release"] for row in rows}
    others = [cann for release in releases for cann in _tables()["compatible"].get(release, ())]
    return Pair(
        torch_npu=plain,
        cann=tuple(row["cann"] for row in rows),
        compatible=tuple(others),
        source=_tables()["sources"]["torch_npu"],
    )


def pythons_of(release: tuple[int, int]) -> tuple[str, ...]:
    """Return the Pythons that torch_npu of a torch release is built for; empty when no table names it."""
    return tuple(_tables()["python"].get(f"{release[0]}.{release[1]}", ()))


def drivers_of(cann: str) -> Drivers | None:
    """Return the drivers that go with this CANN; None when no table names it."""
    short = first_two(cann)
    for row in _tables()["drivers"]:
        if row["cann"] == short:
            hdk = tuple(sorted(row["hdk"], key=order))
            source = _tables()["sources"][row["source"]]
            return Drivers(cann=short, hdk=hdk, least=row.get("least", hdk[0]), source=source)
    return None


def table_date() -> str:
    """Return the month of the tables."""
    return str(_tables()["date"])


def first_two(version: str) -> str:
    """Return `8.2` of `8.2.RC1`."""
    return ".".join(version.split(".")[:2])


def order(version: str) -> tuple[int, ...]:
    """Return what sorts versions: `8.0.RC3` is before `8.0.0`, and both are before `8.2.RC1`."""
    plain = re.split(r"[-.](?:alpha|beta)", version.strip().lower())[0]
    numbers = []
    for part in plain.split("."):
        candidate = re.fullmatch(r"rc(\d+)", part)
        numbers.append(int(candidate[1]) - _CANDIDATE if candidate else int(part) if part.isdigit() else 0)
    return tuple(numbers)


@functools.cache
def _tables() -> dict[str, Any]:
    file = resources.files("jumar.advise.doctor") / "data" / "versions.json"
    tables: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return tables
