"""Logs in blocks of whole lines, with bounded memory however long the file or a line is."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from jumar.errors import InputError

BLOCK_BYTES = 2**20
LONGEST_LINE_BYTES = 4 * 2**20
"""A longer line (a progress bar without line ends, a dumped tensor) is cut into pieces of this size."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some lines of a file, as bytes."""

    data: bytes
    first_line: int
    """Number of its first line, from 1, as editors count."""


def blocks_of(path: Path) -> Iterator[Block]:
    """Yield the file's lines in blocks of about 1 MiB; `.gz` files are unpacked on the way.

    Raises InputError when the file cannot be read to its end.
    """
    try:
        with _opened(path) as file:
            yield from _blocks(file)
    except (OSError, EOFError) as error:  # gzip raises EOFError for a cut file
        raise InputError(f"{path} cannot be read ({_reason(error)}); name a log file that you may read.") from error


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _blocks(file: BinaryIO) -> Iterator[Block]:
    line, rest = 1, b""
    while data := file.read(BLOCK_BYTES):
        data = rest + data
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) < LONGEST_LINE_BYTES:
            rest = data
            continue
        whole, rest = (data[:end], data[end:]) if end else (data, b"")
        yield Block(whole, line)
        line += whole.count(b"\n")
    if rest:
        yield Block(rest, line)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
