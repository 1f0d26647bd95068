"""The bank's tables (SQLAlchemy ORM). `SCHEMA_VERSION` rises when an old reader would misread a new bank."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, ForeignKey, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

SCHEMA_VERSION = 2


class Base(DeclarativeBase):
    """Base of the tables; dictionaries and lists are JSON columns."""

    type_annotation_map = {dict[str, Any]: JSON, list[Any]: JSON}  # noqa: RUF012 - SQLAlchemy's own declaration


class MetaRow(Base):
    """Facts about the bank itself: `schema_version`, `jumar_version`, `created`."""

    __tablename__ = "meta"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class TaskRow(Base):
    """One distinct operator call or graph."""

    __tablename__ = "tasks"

    key: Mapped[str] = mapped_column(primary_key=True)
    """`Work.key`."""
    operator: Mapped[str] = mapped_column(index=True)
    """Aten overload, or `graph`."""
    spec: Mapped[dict[str, Any]]
    structure: Mapped[str] = mapped_column(deferred=True, index=True, server_default="")
    """`structure_of` the task, the same for other sizes. Read by itself only: banks of version 1 have it not."""


class MachineRow(Base):
    """One device with its versions."""

    __tablename__ = "machines"

    key: Mapped[str] = mapped_column(primary_key=True)
    """`Machine.key`."""
    properties: Mapped[dict[str, Any]]


class SlotRow(Base):
    """What is known of one kind of policy for one task on one machine.

    `policy` is null for *unsatisfied*: everything in `tried` was measured and nothing cleared the gate.
    """

    __tablename__ = "slots"
    __table_args__ = (UniqueConstraint("task_key", "machine_key", "kind"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    task_key: Mapped[str] = mapped_column(ForeignKey("tasks.key"))
    machine_key: Mapped[str] = mapped_column(ForeignKey("machines.key"))
    kind: Mapped[str]
    policy: Mapped[dict[str, Any] | None]
    base: Mapped[list[Any]]
    """The whole stack that the candidates were measured against."""
    gain: Mapped[dict[str, Any] | None]
    """The measurement that let the policy in."""
    min_gain: Mapped[float]
    tried: Mapped[list[Any]]
    """Every candidate with its outcome."""
    created: Mapped[str]
    updated: Mapped[str]
    task: Mapped[TaskRow] = relationship(lazy="joined", innerjoin=True)
    machine: Mapped[MachineRow] = relationship(lazy="joined", innerjoin=True)


class PrecisionRow(Base):
    """A graph in fewer bits, chosen under an error budget, for one set of weights on one machine.

    Banks that were made before there was this table get it when the first row is written.
    """

    __tablename__ = "precisions"
    __table_args__ = (UniqueConstraint("graph_key", "machine_key", "weights", "metric", "budget"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    graph_key: Mapped[str] = mapped_column(index=True)
    machine_key: Mapped[str]
    weights: Mapped[str]
    """Digest of the weights' values: ranges and errors hold for them only."""
    metric: Mapped[str]
    """`module:callable`; empty: the outputs' own error."""
    budget: Mapped[float]
    error: Mapped[float]
    """What was measured, at most the budget."""
    point: Mapped[dict[str, Any]]
    """Plan, gain against the best plan in the graph's own precision, errors."""
    updated: Mapped[str]
