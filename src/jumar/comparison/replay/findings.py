"""Turns the results of a replay into findings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from jumar.base.findings import Finding
from jumar.comparison.replay.results import Replayed
from jumar.comparison.replay.rules import inherited_error, not_replayable, own_error

MAX_FAULTS = 20
"""Operators with an error of their own that become findings of their own."""


def ranked(replayed: Sequence[Replayed]) -> list[Replayed]:
    """Return the operators, the worst first: faults by their excess, then what differs, then what was not replayed."""
    return sorted(replayed, key=_rank)


def _rank(row: Replayed) -> tuple[float, ...]:
    worst = row.own.worst if row.own is not None else None
    order = ("own fault", "other arguments", "inherited", "agrees", "not replayable")
    excess = worst.excess if worst is not None else 0.0
    return (order.index(row.verdict), -excess, -(row.inherited or 0.0), row.row.step, row.row.seq)


def find(replayed: Sequence[Replayed], top: int = MAX_FAULTS) -> list[Finding]:
    """Return the findings, operators with an error of their own first and worst first."""
    rows = ranked(replayed)
    return [*islice(own_error.find(rows), top), *inherited_error.find(rows), *not_replayable.find(rows)]
