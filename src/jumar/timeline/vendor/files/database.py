"""`Database`: SQLite files of msprof and torch_npu, read and never written, each table with the columns it has."""

from __future__ import annotations

import sqlite3
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jumar.timeline.vendor.text.losses import Losses

_Row = Mapping[str, Any]


class Database:
    """One file that is open for reading."""

    def __init__(self, connection: sqlite3.Connection, name: str, losses: Losses) -> None:
        self._connection = connection
        self.name = name
        self._losses = losses
        self.tables = self._tables()
        self._strings: dict[int, str] | None = None

    def _tables(self) -> frozenset[str]:
        """Return the plain tables: a view or a virtual table could run what the file says."""
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        try:
            return frozenset(str(name) for (name,) in self._connection.execute(query))
        except sqlite3.Error as error:
            self._losses.say(self.name, f"not read, it is no sound SQLite file ({error}).")
            return frozenset()

    def rows(self, table: str, *columns: str) -> Iterator[_Row]:
        """Yield the rows of a table; columns that it has not are None. Damage ends it, with a sentence."""
        if table not in self.tables:
            return
        num_rows = 0
        try:
            present = {str(row[1]) for row in self._connection.execute(f'PRAGMA table_info("{table}")')}
            chosen = [column for column in columns if column in present]
            if not chosen:
                self._losses.say(self.name, f"its table {table} has none of the columns {', '.join(columns)}.")
                return
            names = ", ".join(f'"{column}"' for column in chosen)
            for row in self._connection.execute(f'SELECT {names} FROM "{table}"'):
                num_rows += 1
                yield dict.fromkeys(columns) | dict(zip(chosen, row, strict=True))
        except sqlite3.Error as error:
            self._losses.say(self.name, f"its table {table} is damaged after {num_rows} rows ({error}).")

    def text(self, number: Any) -> str:
        """Return the string behind a number of `STRING_IDS`; a text stands for itself."""
        if self._strings is None:
            self._strings = {
                row["id"]: str(row["value"])
                for row in self.rows("STRING_IDS", "id", "value")
                if isinstance(row["id"], int) and row["value"] is not None
            }
        if isinstance(number, str):
            return number
        found = self._strings.get(number, "") if isinstance(number, int) else ""
        return "" if found == "N/A" else found


@contextmanager
def opened(path: Path, losses: Losses) -> Iterator[Database]:
    """Open a file as it stands: no lock, no journal, no write, no function that its schema names. Raises OSError."""
    path.stat()
    uri = f"file:{urllib.parse.quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
    except sqlite3.Error as error:
        raise OSError(f"{path} cannot be opened ({error})") from error
    try:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        yield Database(connection, path.name, losses)
    finally:
        connection.close()


def whole(value: Any) -> int | None:
    """Return a cell as a whole number: some versions keep times as text."""
    if isinstance(value, str):
        value = value.strip()
        value = int(value) if value.lstrip("-").isdigit() and len(value) < 20 else None
    if isinstance(value, float):
        value = int(value) if value == value and abs(value) < 2**62 else None  # noqa: PLR0124 - NaN
    return value if isinstance(value, int) and abs(value) < 2**62 else None
