"""Libraries with CUDA code of their own, and the counterpart on an NPU of each of their functions.

The facts are a packaged table (`convert/model/data/counterparts.json`), kept by hand, each with its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from jumar.base.findings import Severity
from jumar.convert.model.api_map import packaged

ValueT = TypeVar("ValueT")


def nearest(table: Mapping[str, ValueT], name: str) -> ValueT | None:
    """Return the value of a dotted name, or of its longest prefix that the table has."""
    while name and name not in table:
        name = name.rpartition(".")[0]
    return table.get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryUse:
    """Functions or classes of one library that have the same counterpart.

    `counterparts` names what stands for them, the most portable first; empty when nothing does.
    `differs` holds one difference each; `similar` is the rule that replaces them where similar
    interfaces are allowed.
    """

    match: tuple[str, ...]
    counterparts: tuple[str, ...]
    differs: tuple[str, ...]
    source: str
    severity: Severity
    similar: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """One library: why it does not run on an NPU, what to do, and its functions by name."""

    name: str
    reason: str
    action: str
    severity: Severity
    source: str
    quiet_import: bool
    """Whether its import is not reported, because most of it runs on any device."""
    uses: Mapping[str, LibraryUse]
    """Name below the library (`optimizers.FusedAdam`) -> what is known of it."""

    def use(self, rest: str) -> LibraryUse | None:
        """Return what is known of the name `rest` below the library, or of the longest prefix of it."""
        return nearest(self.uses, rest)


@lru_cache(maxsize=1)
def libraries() -> Mapping[str, Library]:
    """Return every library of the table by its import name (`nvidia.dali`)."""
    return {row["name"]: _library(row) for row in packaged("counterparts")["libraries"]}


def library_of(name: str) -> Library | None:
    """Return the library that a qualified name (`apex.optimizers.FusedAdam`) belongs to, or None."""
    return nearest(libraries(), name)


def use_of(name: str) -> tuple[Library, LibraryUse] | None:
    """Return the library and what is known of a qualified name of it; None for names the table does not hold."""
    library = library_of(name)
    if library is None:
        return None
    found = library.use(name[len(library.name) + 1 :])
    return None if found is None else (library, found)


def _library(row: dict[str, Any]) -> Library:
    severity = Severity.parse(row["severity"])
    uses: dict[str, LibraryUse] = {}
    for item in row["uses"]:
        found = LibraryUse(
            match=tuple(item["match"]),
            counterparts=tuple(item["counterpart"]),
            differs=tuple(item["differs"]),
            source=item.get("source", row["source"]),
            severity=Severity.parse(item["severity"]) if "severity" in item else max(severity, Severity.ADVICE),
            similar=item.get("similar"),
        )
        uses.update(dict.fromkeys(found.match, found))
    return Library(
        name=row["name"],
        reason=row["reason"],
        action=row["action"],
        severity=severity,
        source=row["source"],
        quiet_import=row.get("quiet_import", False),
        uses=uses,
    )
