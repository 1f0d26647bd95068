"""`Piece`: the shown columns of one step file, its texts as numbers. Imports PyArrow: imported where files are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from jumar.view.data.index import TEXTS

_NEEDED = ("kind", "phase", "module_path", "name", "seq")

Codes = npt.NDArray[np.integer[Any]]


class DamagedFileError(Exception):
    """A step file cannot be read. The message goes on after the file's name."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The rows of one file."""

    num_rows: int
    texts: dict[str, list[str]]
    """Distinct texts by column."""
    codes: dict[str, Codes]
    """By column the place of each row's text among them."""
    duration_us: npt.NDArray[np.float32]
    """NaN where it is not known."""
    seq: npt.NDArray[np.int32] | None
    """None where it counts from 0."""


def read_piece(path: Path) -> Piece:
    """Return the columns of a file, its checksums compared. Raises DamagedFileError."""
    try:
        try:
            return _read(path, list(TEXTS))
        except KeyError:  # a file of an older release, or a foreign one, lacks one of these
            return _read(path, [])
    except (OSError, pa.ArrowException) as error:
        first = (str(error).splitlines() or ["no reason given"])[0]
        raise DamagedFileError(f"is cut short or damaged ({first[:120]})") from error


def _read(path: Path, texts: list[str]) -> Piece:
    """Return the columns of a file, those of `texts` read as numbers. Raises KeyError where one of these is missing."""
    with pq.ParquetFile(path, page_checksum_verification=True, read_dictionary=texts) as file:
        has = set(file.schema_arrow.names)
        if missing := [name for name in _NEEDED if name not in has]:
            raise DamagedFileError(f"was not written by Jumar: it has no column {missing[0]}")
        columns = [name for name in (*TEXTS, "seq", "duration_us") if name in has]
        return _piece(file.read(columns=columns, use_threads=False))


def _piece(table: pa.Table) -> Piece:
    texts: dict[str, list[str]] = {}
    codes: dict[str, Codes] = {}
    for name in TEXTS:
        if name not in table.column_names:  # written by an older release
            texts[name], codes[name] = [""], np.zeros(table.num_rows, np.uint8)
            continue
        column = table.column(name).combine_chunks()
        column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        texts[name] = [text or "" for text in column.dictionary.to_pylist()]
        if column.indices.null_count:
            texts[name].append("")
            column = column.indices.fill_null(len(texts[name]) - 1)
            codes[name] = _narrow(column.to_numpy())
        else:
            codes[name] = _narrow(column.indices.to_numpy())
    duration = np.full(table.num_rows, np.nan, np.float32)
    if "duration_us" in table.column_names:
        duration = table.column("duration_us").to_numpy().astype(np.float32)
    seq = table.column("seq").to_numpy().astype(np.int32)
    counts = np.arange(table.num_rows, dtype=np.int32)
    return Piece(table.num_rows, texts, codes, duration, None if np.array_equal(seq, counts) else seq)


def _narrow(codes: Codes) -> Codes:
    """Return numbers in as few bytes as they need; PyArrow's memory, which has four each, is let go."""
    return codes.astype(np.uint16 if not codes.size or codes.max() < 1 << 16 else np.uint32)


def let_go() -> None:
    """Give memory that PyArrow keeps for later back to the system."""
    pa.default_memory_pool().release_unused()


def figures(path: Path, rows: Sequence[int], side: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return figures of the first tensor on a side (`inputs`, `outputs`) of these rows; {} of a row without one.

    Raises DamagedFileError.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            known = [f"{side}.list.element.{name}" for name in names]
            table = file.read(columns=known, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise DamagedFileError(f"is cut short or damaged ({str(error).splitlines()[0][:120]})") from error
    if side not in table.column_names:
        return [{} for _ in rows]
    column = table.column(side).combine_chunks()
    return [(item.as_py() or [{}])[0] for item in (column[row] for row in rows)]
