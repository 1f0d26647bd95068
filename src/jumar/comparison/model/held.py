"""What recordings of different tools can hold: `Held`, `held`.

A dump of another tool, or a recording of an older Jumar, has the calls of some kinds and phases only, and may leave out
arguments. What the other recording has beside them is not compared, and is no difference between the programs.
"""

from __future__ import annotations

from collections.abc import Iterable

from jumar.recording.schema import CallRow, RunInfo

Held = frozenset[tuple[str, str]]
"""Kinds and phases of calls."""


def are_of_one_tool(reference: RunInfo, target: RunInfo) -> bool:
    """Return whether both recordings have one format and version: then both could hold the same."""
    return _tool(reference) == _tool(target)


def held(info: RunInfo, other: RunInfo, rows: Iterable[CallRow]) -> Held | None:
    """Return the kinds of calls that a step's rows are of, where another tool made the other recording.

    None for recordings of one tool: what is missing there was not called.
    """
    return None if are_of_one_tool(info, other) else frozenset((row.kind, row.phase) for row in rows)


def _tool(info: RunInfo) -> tuple[str, int]:
    return str(info.environment.get("format", "")), info.schema_version
