"""The bank's tables (SQLAlchemy ORM), entries as their rows, and back.

`SCHEMA_VERSION` rises when an old reader would misread a new bank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy import JSON, ForeignKey, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from jumar.tune.bank.entry import Entry, Tried, policy_from_json, time_from
from jumar.tune.graph.graph import Work, structure_of, work_from_json
from jumar.tune.model.errors import TuneError
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import KINDS, PolicyKind, kind_of, stack_from_json, stack_to_json

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


UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, RecursionError, TuneError)
"""What reading a row raises that nobody of this version wrote."""


class UnreadableRowError(ValueError):
    """A row that nobody of this version wrote; the message says what is wrong with it."""


@contextmanager
def reading_row() -> Iterator[None]:
    """Raise UnreadableRowError in the place of what reading a damaged row raises."""
    try:
        yield
    except UnreadableRowError:
        raise
    except UNREADABLE as error:
        raise UnreadableRowError(f"{type(error).__name__} {error}") from error


def slots(session: Session, task: Work, machine: Machine) -> list[Entry]:
    """Return what is known of a task on a machine, in the order of the kinds."""
    found = session.scalars(sa.select(SlotRow).where(SlotRow.task_key == task.key, SlotRow.machine_key == machine.key))
    return sorted((entry_of(row) for row in found), key=lambda entry: KINDS.index(entry.kind))


def alike(session: Session, task: Work, *, by_structure: bool) -> list[Entry]:
    """Return what is known of tasks of one structure; without the column for it, all tasks are gone through."""
    structure = structure_of(task)
    query = sa.select(SlotRow).join(SlotRow.task)
    if by_structure:
        return list(_readable(session, query.where(TaskRow.structure == structure)))
    entries = _readable(session, query.where(TaskRow.operator == task.operator))
    return [entry for entry in entries if structure_of(entry.task) == structure]


def _readable(session: Session, query: sa.Select[Any]) -> Iterator[Entry]:
    """Yield the rows as entries; a damaged neighbour helps nobody and harms nobody (`verify` names it)."""
    try:
        found: Iterable[SlotRow] = session.scalars(query).all()
    except ValueError:  # one of them is no JSON: they are read one by one
        found = _one_by_one(session, query)
    for row in found:
        with suppress(*UNREADABLE):
            yield entry_of(row)


def _one_by_one(session: Session, query: sa.Select[Any]) -> Iterator[SlotRow]:
    """Yield the rows whose columns are JSON."""
    for number in session.scalars(query.with_only_columns(SlotRow.id)).all():
        row = None
        with suppress(ValueError):
            row = session.get(SlotRow, number)
        if row is not None:
            yield row


def name(session: Session, task: Work, machine: Machine) -> None:
    """Write what a task and a machine are, unless that is known."""
    if session.get(TaskRow, task.key) is None:
        session.add(TaskRow(key=task.key, operator=task.operator, spec=task.to_json(), structure=structure_of(task)))
    if session.get(MachineRow, machine.key) is None:
        session.add(MachineRow(key=machine.key, properties=asdict(machine)))
    session.flush()


def put(session: Session, entry: Entry) -> None:
    """Write an entry in the place of the one of its task, machine and kind."""
    task, machine = entry.task, entry.machine
    name(session, task, machine)
    row = session.scalar(
        sa.select(SlotRow).where(
            SlotRow.task_key == task.key, SlotRow.machine_key == machine.key, SlotRow.kind == entry.kind
        )
    )
    if row is None:
        row = SlotRow(task_key=task.key, machine_key=machine.key, kind=entry.kind, created=entry.created)
        session.add(row)
    row.policy = None if entry.policy is None else entry.policy.to_json()
    row.gain = None if entry.gain is None else entry.gain.to_json()
    row.base = list(stack_to_json(entry.base))
    row.min_gain = entry.min_gain
    row.tried = [one.to_json() for one in entry.tried]
    row.updated = entry.updated


def remove(session: Session, task: Work, machine: Machine, kind: PolicyKind | None = None) -> None:
    """Forget a task on a machine, or one kind of policy for it."""
    query = sa.delete(SlotRow).where(SlotRow.task_key == task.key, SlotRow.machine_key == machine.key)
    session.execute(query if kind is None else query.where(SlotRow.kind == kind))


def remove_unused(session: Session, *, with_precisions: bool) -> None:
    """Forget the tasks and machines of which nothing is known any more, by the table of precisions neither."""
    tasks, machines = [sa.select(SlotRow.task_key)], [sa.select(SlotRow.machine_key)]
    if with_precisions:
        tasks.append(sa.select(PrecisionRow.graph_key))
        machines.append(sa.select(PrecisionRow.machine_key))
    session.execute(sa.delete(TaskRow).where(*map(TaskRow.key.not_in, tasks)))
    session.execute(sa.delete(MachineRow).where(*map(MachineRow.key.not_in, machines)))


def entry_of(row: SlotRow) -> Entry:
    """Return a row as an entry. Raises UnreadableRowError for one that nobody of this version wrote."""
    with reading_row():
        return _entry_of(row)


def _entry_of(row: SlotRow) -> Entry:
    kind, policy = kind_of(row.kind), None if row.policy is None else policy_from_json(row.policy)
    if policy is not None and policy.kind != kind:
        raise ValueError(f"its policy is of the kind {policy.kind}")
    return Entry(
        task=work_from_json(row.task.spec),
        machine=Machine.from_json(row.machine.properties),
        kind=kind,
        policy=policy,
        base=stack_from_json(row.base),
        gain=None if row.gain is None else Gain.from_json(row.gain),
        min_gain=row.min_gain,
        tried=tuple(Tried.from_json(one) for one in row.tried),
        created=row.created,
        updated=time_from(row.updated),
    )
