"""The bank: a SQLite file that many processes write at once and that a kill at any moment leaves whole.

Each change is one transaction that takes SQLite's write lock at its start (`BEGIN IMMEDIATE`), reads
what is there, and only then decides; other writers wait up to `BUSY_TIMEOUT_S`. The journal is SQLite's
rollback journal with full synchronisation, not its write-ahead log: the log needs shared memory, which
network file systems lack, and a bank may be shared over one (the vendor's ASCEND_CACHE_PATH rule).

A policy was measured on top of the other kinds' policies. `accept` therefore takes the stack that was
the incumbent and refuses when another process has changed it meanwhile, so that the bank never holds a
stack that nobody measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.orm import Session

from jumar import __version__
from jumar.tune.bank.entry import Entry, Tried, stack_of
from jumar.tune.bank.location import FILE_NAME
from jumar.tune.bank.tables import SCHEMA_VERSION, Base, MachineRow, MetaRow, SlotRow, TaskRow
from jumar.tune.errors import BankError
from jumar.tune.gate import Gain
from jumar.tune.machine import Machine
from jumar.tune.policy import KINDS, Policy, PolicyKind, Stack, stack_from_json, stack_to_json
from jumar.tune.task import Task

BUSY_TIMEOUT_S = 60
Change = Literal["add", "update"]


class Bank:
    """The knowledge bank in a folder. Safe to open in many processes; build it with `Bank.open`."""

    def __init__(self, path: Path, engine: sa.Engine) -> None:
        self.path = path
        self._engine = engine

    @classmethod
    def open(cls, folder: Path, *, create: bool = True) -> Bank:
        """Open the bank in `folder`, making it when there is none and `create` is set.

        Raises BankError in one sentence when there is none, it is no bank, has a newer schema, or
        cannot be read (or written, when it has to be made).
        """
        path = folder / FILE_NAME
        if not path.exists() and not create:
            raise BankError(f"{folder} holds no bank. Tune first, or name its folder with --bank or TUNE_BANK_PATH.")
        bank = cls(path, _engine(path))
        try:
            with bank._session("BEGIN" if path.exists() and path.stat().st_size else "BEGIN IMMEDIATE") as session:
                bank._prepare(session)
        except BaseException:
            bank.close()
            raise
        return bank

    def close(self) -> None:
        """Close the file."""
        self._engine.dispose()

    def slots(self, task: Task, machine: Machine) -> dict[PolicyKind, Entry]:
        """Return what is known of `task` on `machine`, by kind."""
        with self._session("BEGIN") as session:
            return {entry.kind: entry for entry in _slots(session, task, machine)}

    def entries(self) -> list[Entry]:
        """Return everything, by operator, then newest first."""
        with self._session("BEGIN") as session:
            rows = session.scalars(
                sa.select(SlotRow).join(SlotRow.task).order_by(TaskRow.operator, SlotRow.updated.desc(), SlotRow.id)
            )
            return [_entry(row) for row in rows]

    def accept(
        self, task: Task, machine: Machine, policy: Policy, *, incumbent: Stack, gain: Gain, min_gain: float,
        tried: Sequence[Tried],
    ) -> Change | None:  # fmt: skip
        """Write `policy`, which was measured faster than `incumbent` by `gain`.

        Returns "add" when its kind had none, "update" when it replaces one, and None, writing nothing,
        when `incumbent` is no longer what the bank holds: measure again on top of that.
        """
        with self._session("BEGIN IMMEDIATE") as session:
            entries = _slots(session, task, machine)
            if stack_of(entries) != incumbent:
                return None
            known = next((entry for entry in entries if entry.kind == policy.kind), None)
            values = {"policy": policy.to_json(), "gain": gain.to_json()}
            _write(session, task, machine, policy.kind, incumbent, min_gain, tried, values)
            return "update" if known is not None and known.policy is not None else "add"

    def remember_unsatisfied(
        self, task: Task, machine: Machine, kind: PolicyKind, *, incumbent: Stack, min_gain: float,
        tried: Sequence[Tried],
    ) -> None:  # fmt: skip
        """Note that nothing in `tried` cleared the gate, so that it is not tuned again for nothing.

        A policy that is there (another process may have found one) stays.
        """
        with self._session("BEGIN IMMEDIATE") as session:
            entries = {entry.kind: entry for entry in _slots(session, task, machine)}
            if kind in entries and entries[kind].policy is not None:
                return
            values = {"policy": None, "gain": None}
            _write(session, task, machine, kind, incumbent, min_gain, tried, values)

    def _prepare(self, session: Session) -> None:
        """Make the tables of an empty file; check the schema of one that is not."""
        connection = session.connection()
        if not sa.inspect(connection).get_table_names():
            Base.metadata.create_all(connection)
            facts = {"schema_version": str(SCHEMA_VERSION), "jumar_version": __version__, "created": _now()}
            session.add_all(MetaRow(name=name, value=value) for name, value in facts.items())
            return
        if not sa.inspect(connection).has_table("meta"):
            raise BankError(f"{self.path} is a database but no bank of Jumar. Name another folder.")
        version = session.get(MetaRow, "schema_version")
        if version is None or not version.value.isdecimal():
            raise BankError(f"{self.path} is a database but no bank of Jumar. Name another folder.")
        if int(version.value) > SCHEMA_VERSION:
            raise BankError(
                f"{self.path} has schema {version.value} and this Jumar reads up to {SCHEMA_VERSION}. "
                "Update Jumar, or name another folder with --bank."
            )

    @contextmanager
    def _session(self, begin: str) -> Iterator[Session]:
        """Yield a session in one transaction; whatever is raised in it, nothing of it is written."""
        try:
            with Session(self._engine.execution_options(jumar_begin=begin)) as session, session.begin():
                yield session
        except OperationalError as error:
            raise BankError(
                f"{self.path} cannot be used ({error.orig}). Check its permissions, the disk's space, and whether "
                "another process holds it."
            ) from error
        except DatabaseError as error:
            raise BankError(f"{self.path} is damaged or no bank ({error.orig}). Name another folder.") from error


def _engine(path: Path) -> sa.Engine:
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path)),
        connect_args={"timeout": BUSY_TIMEOUT_S},
        poolclass=sa.pool.NullPool,
    )

    @sa.event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # Python's sqlite3 must not begin transactions of its own
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = EXTRA")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get("jumar_begin", "BEGIN"))

    return engine


def _slots(session: Session, task: Task, machine: Machine) -> list[Entry]:
    rows = session.scalars(sa.select(SlotRow).where(SlotRow.task_key == task.key, SlotRow.machine_key == machine.key))
    return sorted((_entry(row) for row in rows), key=lambda entry: KINDS.index(entry.kind))


def _write(
    session: Session,
    task: Task,
    machine: Machine,
    kind: PolicyKind,
    incumbent: Stack,
    min_gain: float,
    tried: Sequence[Tried],
    values: dict[str, Any],
) -> None:
    if session.get(TaskRow, task.key) is None:
        session.add(TaskRow(key=task.key, operator=task.operator, spec=task.to_json()))
    if session.get(MachineRow, machine.key) is None:
        session.add(MachineRow(key=machine.key, properties=asdict(machine)))
    session.flush()
    row = session.scalar(
        sa.select(SlotRow).where(SlotRow.task_key == task.key, SlotRow.machine_key == machine.key, SlotRow.kind == kind)
    )
    if row is None:
        row = SlotRow(task_key=task.key, machine_key=machine.key, kind=kind, created=_now())
        session.add(row)
    row.base = list(stack_to_json(incumbent))
    row.min_gain = min_gain
    row.tried = [one.to_json() for one in tried]
    row.updated = _now()
    row.policy, row.gain = values["policy"], values["gain"]


def _entry(row: SlotRow) -> Entry:
    kind: Any = row.kind
    return Entry(
        task=Task.from_json(row.task.spec),
        machine=Machine.from_json(row.machine.properties),
        kind=kind,
        policy=None if row.policy is None else Policy.from_json(row.policy),
        base=stack_from_json(row.base),
        gain=None if row.gain is None else Gain.from_json(row.gain),
        min_gain=row.min_gain,
        tried=tuple(Tried.from_json(one) for one in row.tried),
        created=row.created,
        updated=row.updated,
    )


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
