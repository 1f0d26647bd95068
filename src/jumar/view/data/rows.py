"""`RowTable`: the rows of a recording in pages, sorted and filtered where they lie, by DuckDB over the step files.

Nothing is held between two questions but the list of the files, so that a recording of any length takes no memory and a
step that was just written is seen. Damaged files are left out and named: a question that fails is asked of every file
by itself once, and those that cannot answer are not asked again.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jumar.base.errors import InputError
from jumar.recording.schema import STEPS_FOLDER

if TYPE_CHECKING:
    import duckdb

COLUMNS = ("step", "rank", "seq", "kind", "phase", "module_path", "module_type", "name", "source", "duration_us")
"""What the table shows, in the order of a row's cells."""
LATER = {"source": "''", "duration_us": "NULL::DOUBLE", "inputs": "[]", "outputs": "[]"}
"""Columns that a file of an older release may lack, and what stands for them."""
SEARCHED = ("name", "module_path", "source")
TENSORS = ("inputs", "outputs")
"""Read only where a question names them."""
PAGE_ROWS = 50
DEEPEST = 10_000
"""Rows of a sorted table that are paged through. Beyond, sorting would take seconds: turn it round, or filter."""
_MOST_THREADS = 4
_PATIENCE_S = 0.3
"""How long the first page waits for the checksums: those of a short recording are known by then."""
_STEP_FILE = re.compile(r"step-(\d+)-rank-(\d+)\.parquet")

Sort = Literal["", "kind", "phase", "module_path", "name", "source", "duration_us"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which rows, in which order. `sort` is empty for the order of the recording."""

    step: int | None = None
    rank: int | None = None
    kind: str = ""
    phase: str = ""
    words: str = ""
    """All of them must stand in operator, module or source line, in any letters."""
    sort: Sort = ""
    descending: bool = False
    first: int = 0

    @property
    def is_filtered(self) -> bool:
        """Whether rows are left out by what is in them; steps and ranks are chosen by the names of the files."""
        return bool(self.kind or self.phase or self.words.split())


@dataclass(frozen=True, slots=True)
class Found:
    """A page of rows, the cells in the order of `COLUMNS`."""

    rows: Sequence[Sequence[Any]]
    has_more: bool


@dataclass(slots=True)
class RowTable:
    """The rows of one recording. Safe for several threads. `damaged` names the files that are left out."""

    path: Path
    files: Sequence[tuple[int, int, Path]]
    """Step, rank and file, in the order of the recording."""
    damaged: dict[Path, str] = field(default_factory=dict)
    _lacks: dict[Path, frozenset[str]] = field(default_factory=dict)
    _counts: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    num_checked: int = 0
    """Files whose checksums were compared, of those columns that the table shows."""

    @property
    def steps(self) -> list[int]:
        """The steps that any rank has, in order."""
        return sorted({step for step, _, _ in self.files})

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a step, in order."""
        return sorted({rank for _, rank, _ in self.files})

    def begin_check(self) -> None:
        """Compare the checksums of all files in the background: DuckDB reads past a page whose bytes changed."""
        thread = threading.Thread(target=self._check, daemon=True)
        thread.start()
        thread.join(_PATIENCE_S)

    def _check(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for _, _, path in self.files:
            try:
                with pq.ParquetFile(path, page_checksum_verification=True) as file:
                    file.read(columns=[name for name in COLUMNS if name in file.schema_arrow.names], use_threads=False)
            except (OSError, pa.ArrowException) as error:
                self.damaged.setdefault(path, f"is cut short or damaged ({str(error).splitlines()[0][:120]})")
                self._counts.clear()
            self.num_checked += 1

    def page(self, asked: Asked) -> Found:
        """Return the rows from `asked.first` on, `PAGE_ROWS` at most. Raises InputError beyond `DEEPEST` of a sort."""
        if asked.sort and asked.first >= DEEPEST:
            raise InputError(
                f"a sorted table is shown to row {DEEPEST:,}; got {asked.first:,}. Turn the order round, or filter."
            )
        where, values = _condition(asked)
        order = ""
        if asked.sort:
            turned = " DESC" if asked.descending else ""
            order = f" ORDER BY {asked.sort}{turned} NULLS LAST, step, rank, seq"
        tail = f"{where}{order} LIMIT {PAGE_ROWS + 1} OFFSET {max(0, asked.first)}"
        rows = self._ask(", ".join(COLUMNS), tail, values, asked)
        return Found(rows[:PAGE_ROWS], len(rows) > PAGE_ROWS)

    def count(self, asked: Asked) -> int:
        """Return how many rows fit; kept, because every page of one filter has the same number."""
        key = (asked.step, asked.rank, asked.kind, asked.phase, asked.words, len(self.files))
        if key not in self._counts:
            where, values = _condition(asked)
            self._counts[key] = sum(row[0] for row in self._ask("count(*)", where, values, asked))
        return self._counts[key]

    def totals(self, asked: Asked, by: Literal["name", "module_path"], most: int = 200) -> list[tuple[str, int, float]]:
        """Return operators or modules with the most host time: name, calls, microseconds in all."""
        where, values = _condition(asked)
        tail = f"{where} GROUP BY {by} ORDER BY 3 DESC NULLS LAST, 1 LIMIT {int(most)}"
        found = self._ask(f"{by}, count(*), sum(duration_us)", tail, values, asked)
        return [(row[0], row[1], row[2] or 0.0) for row in found]

    def raw(
        self, columns: str, tail: str, values: Sequence[Any] = (), rank: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the answer to a question of Jumar's own over all columns, tensors too."""
        return self._ask(columns, tail, values, Asked(rank=rank))

    def _ask(self, columns: str, tail: str, values: Sequence[Any], asked: Asked) -> list[tuple[Any, ...]]:
        files = [
            path for step, rank, path in self.files
            if asked.step in (None, step) and asked.rank in (None, rank) and path not in self.damaged
        ]  # fmt: skip
        if not files:
            return []
        import duckdb

        with _connected() as connection:
            try:
                return self._answer(connection, files, columns, tail, values)
            except duckdb.Error:
                self._leave_out(connection, files)
                whole = [path for path in files if path not in self.damaged]
                return self._answer(connection, whole, columns, tail, values) if whole else []

    def _answer(
        self, connection: duckdb.DuckDBPyConnection, files: Sequence[Path], columns: str, tail: str,
        values: Sequence[Any] = (),
    ) -> list[tuple[Any, ...]]:  # fmt: skip
        """Ask files that lack no column, or lack the same ones, together. Raises duckdb.Error."""
        groups: dict[frozenset[str], list[str]] = {}
        for path in files:
            groups.setdefault(self._lacks.get(path, frozenset()), []).append(_literal(path))
        parts = []
        for lacks in groups:
            names = ", ".join(f"{LATER[name]} AS {name}" if name in lacks else name for name in (*COLUMNS, *TENSORS))
            parts.append(f"SELECT {names} FROM read_parquet(?)")
        question = f"SELECT {columns} FROM ({' UNION ALL '.join(parts)}){tail}"
        return connection.execute(question, [*groups.values(), *values]).fetchall()

    def _leave_out(self, connection: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> None:
        """Ask every file by itself, and note those that lack a column or cannot be read."""
        import duckdb

        with self._lock:
            for path in files:
                try:
                    described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [[_literal(path)]])
                    lacks = frozenset((*COLUMNS, *TENSORS)) - {row[0] for row in described.fetchall()}
                    if missing := lacks - LATER.keys():
                        self.damaged[path] = f"was not written by Jumar: it has no column {min(missing)}"
                        continue
                    if lacks:
                        self._lacks[path] = lacks
                    self._answer(connection, [path], ", ".join(f"max({name})" for name in COLUMNS), "")
                except duckdb.Error as error:
                    first = (str(error).strip().splitlines() or ["no reason given"])[0]
                    self.damaged[path] = f"is cut short or damaged ({first[:120]})"


def _literal(path: Path) -> str:
    """Return a path for DuckDB, which reads patterns: a bracket, star or question mark stands for itself."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def _condition(asked: Asked) -> tuple[str, list[Any]]:
    """Return the question's condition, with the values apart: nothing that somebody typed is part of the question."""
    parts, values = [], []
    for name in ("kind", "phase"):
        if value := getattr(asked, name):
            parts.append(f"{name} = ?")
            values.append(value)
    for word in asked.words.lower().split():
        parts.append("(" + " OR ".join(f"contains(lower({name}), ?)" for name in SEARCHED) + ")")
        values += [word] * len(SEARCHED)
    return (f" WHERE {' AND '.join(parts)}" if parts else ""), values


def _connected() -> duckdb.DuckDBPyConnection:
    """Return a connection of its own that loads nothing from elsewhere."""
    import duckdb

    from jumar.base.host import usable_cores

    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": min(_MOST_THREADS, usable_cores()), "autoinstall_known_extensions": False,
        "autoload_known_extensions": False, "preserve_insertion_order": True,
    }  # fmt: skip
    return duckdb.connect(":memory:", config=settings)


def open_table(folder: Path, is_allowed: Callable[[Path], bool] = lambda _: True) -> RowTable:
    """Return the rows of the recording in a folder; `is_allowed` says which of its files may be read."""
    found = []
    for path in (folder / STEPS_FOLDER).iterdir():
        if (match := _STEP_FILE.fullmatch(path.name)) and is_allowed(path):
            found.append((int(match[1]), int(match[2]), path))
    return RowTable(folder, sorted(found))
