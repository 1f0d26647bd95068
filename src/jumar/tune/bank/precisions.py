"""What was chosen under an error budget: plans in fewer bits, which hold for one set of weights.

They are no policies: nothing is measured on top of them, and nobody gets one who did not ask for its budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from jumar.tune.bank.tables import PrecisionRow
from jumar.tune.gate import Gain
from jumar.tune.plan.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPrecision:
    """What a user asks for."""

    graph_key: str
    machine_key: str
    weights: str
    """Digest of the weights' values."""
    budget: float
    metric: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPrecision:
    """What was chosen for it."""

    asked: AskedPrecision
    error: float
    plan: Plan
    gain: Gain
    """Against the best plan in the graph's own precision."""
    updated: str

    @classmethod
    def of(cls, row: PrecisionRow) -> KnownPrecision:
        """Return a row. Raises KeyError, TypeError or ValueError for one that nobody of this version wrote."""
        asked = AskedPrecision(
            graph_key=row.graph_key, machine_key=row.machine_key, weights=row.weights, budget=row.budget,
            metric=row.metric,
        )  # fmt: skip
        point: Mapping[str, Any] = row.point
        return cls(
            asked=asked, error=row.error, plan=Plan.from_json(point["plan"]), gain=Gain.from_json(point["gain"]),
            updated=row.updated,
        )  # fmt: skip


def put(session: Session, known: KnownPrecision) -> None:
    """Write a choice in the place of the one for the same question; the table is made where there is none."""
    PrecisionRow.__table__.create(session.connection(), checkfirst=True)  # type: ignore[attr-defined]  # it is a Table
    asked = known.asked
    session.execute(
        sa.delete(PrecisionRow).where(
            *_same(asked), PrecisionRow.budget == asked.budget, PrecisionRow.machine_key == asked.machine_key
        )
    )
    point = {"plan": known.plan.to_json(), "gain": known.gain.to_json()}
    session.add(
        PrecisionRow(
            graph_key=asked.graph_key,
            machine_key=asked.machine_key,
            weights=asked.weights,
            metric=asked.metric,
            budget=asked.budget,
            error=known.error,
            point=point,
            updated=known.updated,
        )
    )


def find(session: Session, asked: AskedPrecision) -> KnownPrecision | None:
    """Return the fastest choice whose error is within the budget; None without any."""
    if not _has_table(session):
        return None
    query = sa.select(PrecisionRow).where(
        *_same(asked), PrecisionRow.machine_key == asked.machine_key, PrecisionRow.error <= asked.budget
    )
    found = [KnownPrecision.of(row) for row in session.scalars(query)]
    return max(found, key=lambda one: one.gain.ratio_low, default=None)


def keys_of(session: Session, machine_key: str) -> list[str]:
    """Return the keys of the graphs for which there is a choice on a machine."""
    if not _has_table(session):
        return []
    return list(session.scalars(sa.select(PrecisionRow.graph_key).where(PrecisionRow.machine_key == machine_key)))


def everything(session: Session) -> list[KnownPrecision]:
    """Return all choices, the newest first."""
    if not _has_table(session):
        return []
    rows = session.scalars(sa.select(PrecisionRow).order_by(PrecisionRow.updated.desc(), PrecisionRow.id))
    return [KnownPrecision.of(row) for row in rows]


def _same(asked: AskedPrecision) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        PrecisionRow.graph_key == asked.graph_key,
        PrecisionRow.weights == asked.weights,
        PrecisionRow.metric == asked.metric,
    )


def _has_table(session: Session) -> bool:
    return sa.inspect(session.connection()).has_table(PrecisionRow.__tablename__)
