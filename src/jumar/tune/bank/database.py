"""The bank's database: any that SQLAlchemy speaks to, SQLite in a folder by default.

Each change is one transaction that excludes other writers from its start, reads what is there, and only
then decides. SQLite does that with `BEGIN IMMEDIATE` (others wait up to `BUSY_TIMEOUT_S`), a server by a lock
on one row of the table `meta`. Reading sees one moment: any transaction of SQLite does, a
server's when it is `REPEATABLE READ`. SQLite's journal is its rollback journal with full synchronisation, not its
write-ahead log: the log needs shared memory, which network file systems lack, and a bank may be shared over one (the
vendor's ASCEND_CACHE_PATH rule).

Values are JSON as its standard has it: servers refuse the `NaN` and `Infinity` that Python writes. A float that JSON
does not have (the error of a candidate that returned NaN, the least value of a mask) is an object with one key,
`{"not finite": "inf"}`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError, NoSuchModuleError, OperationalError
from sqlalchemy.orm import Session

from jumar import __version__
from jumar.tune.bank.location import FILE_NAME, Place
from jumar.tune.bank.rows import SCHEMA_VERSION, Base, MetaRow, TaskRow, UnreadableRowError
from jumar.tune.graph.graph import structure_of, work_from_json
from jumar.tune.model.errors import BankError, NoBankError

_MARK = "not finite"


def dumps(value: Any) -> str:
    """Return JSON values as text."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_marked(value), allow_nan=False)


def loads(text: str | bytes) -> Any:
    """Return what `dumps` wrote. Raises json.JSONDecodeError."""
    return json.loads(text, object_hook=_unmarked)


def _marked(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else {_MARK: str(value)}
    if isinstance(value, Mapping):
        return {name: _marked(item) for name, item in value.items()}
    return [_marked(item) for item in value] if isinstance(value, list | tuple) else value


def _unmarked(found: dict[str, Any]) -> Any:
    return float(found[_MARK]) if found.keys() == {_MARK} else found


BUSY_TIMEOUT_S = 60
_SCHEMA = "schema_version"
_REFUSALS = frozenset({"42501", "25006"})
"""SQLSTATE of insufficient_privilege and read_only_sql_transaction."""


class Database:
    """Transactions on one bank. Safe to open in many processes; build it with `Database.open`."""

    def __init__(self, name: str, engine: sa.Engine) -> None:
        self.name = name
        """File, or URL without its password: for messages."""
        self._engine = engine
        self._is_file = engine.dialect.name == "sqlite"

    @classmethod
    def open(cls, place: Place, *, create: bool = True) -> Database:
        """Open the bank at `place`, making its tables where there are none and `create` is set.

        Raises BankError in one sentence when there is none (NoBankError), it is no bank, has a newer schema, its driver
        is missing, or it cannot be read (or written, when it has to be made).
        """
        if isinstance(place, Path):
            path = place / FILE_NAME
            if not path.exists() and not create:
                raise _no_bank(str(place))
            database = cls(str(path), _file_engine(path))
            is_new = not path.exists() or not path.stat().st_size
        else:
            engine, name = _server_engine(place)
            database, is_new = cls(name, engine), False
        try:
            database._prepare(create=create, is_new=is_new)
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        """Close what is open."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Yield a session in which everything is read at one moment; nothing may be written in it."""
        with self._transaction("BEGIN", isolation="REPEATABLE READ") as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Yield a session during which no other process writes; when anything is raised in it, it writes nothing."""
        with self._transaction("BEGIN IMMEDIATE") as session:
            lock = sa.select(MetaRow).where(MetaRow.name == _SCHEMA)
            version = self._version(session.scalar(lock if self._is_file else lock.with_for_update()))
            if version < SCHEMA_VERSION:
                migrate(session, version)
            yield session

    def check_writable(self) -> None:
        """Raise BankError, in one sentence, where nothing can be written. Nothing is changed."""
        with self._transaction("BEGIN IMMEDIATE") as session:
            # SQLite lets a transaction begin on a read-only file, and takes a change to the same value for none.
            session.execute(sa.text("UPDATE meta SET value = '' WHERE name = 'jumar_version'"))
            session.rollback()

    def problems(self) -> list[str]:
        """Return what the database itself finds wrong with its file, one sentence each; a server is not asked."""
        if not self._is_file:
            return []
        with self.reading() as session:
            rows = session.execute(sa.text("PRAGMA integrity_check")).scalars().all()
        return [f"SQLite: {row}" for row in rows if row != "ok"]

    def _prepare(self, *, create: bool, is_new: bool) -> None:
        """Make the tables of an empty database; check the schema of one that is not."""
        with self._transaction("BEGIN IMMEDIATE" if is_new else "BEGIN") as session:
            tables = sa.inspect(session.connection()).get_table_names()
            if tables:
                self._check(session, tables)
                return
        if not create:
            raise _no_bank(self.name)
        try:
            self._make()
        except BankError:  # another process has made them meanwhile
            with self._transaction("BEGIN") as session:
                tables = sa.inspect(session.connection()).get_table_names()
                if not tables:
                    raise
                self._check(session, tables)

    def _make(self) -> None:
        with self._transaction("BEGIN IMMEDIATE") as session:
            Base.metadata.create_all(session.connection())
            facts = {_SCHEMA: str(SCHEMA_VERSION), "jumar_version": __version__, "created": now()}
            known = set(session.scalars(sa.select(MetaRow.name)))
            session.add_all(MetaRow(name=name, value=value) for name, value in facts.items() if name not in known)

    def _check(self, session: Session, tables: list[str]) -> None:
        self._version(session.get(MetaRow, _SCHEMA) if "meta" in tables else None)

    def has_structures(self, session: Session) -> bool:
        """Tell whether the bank has the column `structure`: it was made by, or written to with, version 2 or later."""
        return self._version(session.get(MetaRow, _SCHEMA)) >= STRUCTURES_SINCE

    def _version(self, row: MetaRow | None) -> int:
        """Return the bank's schema. Raises BankError for one that this Jumar cannot read."""
        if row is None or not row.value.isdecimal():
            raise BankError(f"{self.name} is a database but no bank of Jumar. Name another place.")
        if int(row.value) > SCHEMA_VERSION:
            raise BankError(
                f"{self.name} has schema {row.value} and this Jumar reads up to {SCHEMA_VERSION}. "
                "Update Jumar, or name another place with --bank."
            )
        return int(row.value)

    @contextmanager
    def _transaction(self, begin: str, *, isolation: str = "") -> Iterator[Session]:
        """Yield a session: a file's transaction begins with `begin`, a server's has the level `isolation`, if given."""
        options: dict[str, Any] = {"jumar_begin": begin}
        if isolation and not self._is_file:
            options["isolation_level"] = isolation
        try:
            with Session(self._engine.execution_options(**options)) as session, session.begin():
                yield session
        except DatabaseError as error:
            raise self._failure(error) from error
        except (json.JSONDecodeError, UnreadableRowError) as error:
            raise BankError(f"{self.name} has damaged entries ({error}). See which: jumar bank verify.") from error

    def _failure(self, error: DatabaseError) -> BankError:
        """Return what a database that cannot be used, or is no bank, is to its user."""
        if isinstance(error, OperationalError | IntegrityError) or _is_refusal(error):
            held = "its permissions, the disk's space, and whether another process holds it"
            advice = held if self._is_file else "that the server runs, takes you in, and lets you write"
            return BankError(f"{self.name} cannot be used ({_first_line(error)}). Check {advice}.")
        return BankError(f"{self.name} is damaged or no bank ({_first_line(error)}). Name another place.")


def _file_engine(path: Path) -> sa.Engine:
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


def _server_engine(text: str) -> tuple[sa.Engine, str]:
    """Return the engine of a URL and the URL without its password. Raises BankError."""
    try:
        url = sa.make_url(text)
        name = url.render_as_string(hide_password=True)
        if url.get_backend_name() == "sqlite":
            raise BankError(f"{name} must not name SQLite by URL. Name the folder of its file instead.")
        # No connection is kept: each of many processes that train would hold one to its end, and forked ones share it.
        return sa.create_engine(
            url, poolclass=sa.pool.NullPool, isolation_level="READ COMMITTED", json_serializer=dumps,
            json_deserializer=loads,
        ), name  # fmt: skip
    except (ArgumentError, NoSuchModuleError) as error:
        raise BankError(
            f'"{_without_password(text)}" must be a folder or a URL such as postgresql+psycopg://user@host/bank '
            f"({_first_line(error)})."
        ) from error
    except ImportError as error:
        raise BankError(f"{name} needs the driver {error.name}, which is missing: pip install {error.name}.") from error


def _is_refusal(error: DatabaseError) -> bool:
    """Tell whether a server may be read and not written: by us, or by anybody."""
    return getattr(error.orig, "sqlstate", None) in _REFUSALS


def _no_bank(place: str) -> NoBankError:
    return NoBankError(f"{place} holds no bank. Tune first, or name its place with --bank or TUNE_BANK_PATH.")


def _without_password(text: str) -> str:
    scheme, _, rest = text.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().splitlines()[0].rstrip(".") if str(cause).strip() else type(cause).__name__


def now() -> str:
    """Return the time, UTC, as the bank writes it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


STRUCTURES_SINCE = 2


def migrate(session: Session, version: int) -> None:
    """Bring the tables from `version` to `SCHEMA_VERSION`. What is in a damaged row stays as it is."""
    if version < STRUCTURES_SINCE:
        session.execute(sa.text("ALTER TABLE tasks ADD COLUMN structure VARCHAR DEFAULT '' NOT NULL"))
        session.execute(sa.text("CREATE INDEX ix_tasks_structure ON tasks (structure)"))
        for key, spec in session.execute(sa.select(TaskRow.key, TaskRow.spec)).all():
            try:
                structure = structure_of(work_from_json(spec))
            except (KeyError, TypeError, ValueError, AttributeError):
                continue
            session.execute(sa.update(TaskRow).where(TaskRow.key == key).values(structure=structure))
    session.execute(sa.update(MetaRow).where(MetaRow.name == "schema_version").values(value=str(SCHEMA_VERSION)))
