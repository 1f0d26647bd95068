"""`blocks_of`: the bytes of logs in blocks of whole lines, unpacked as for the reading of errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jumar.advise.doctor.logs.engine.blocks import blocks
from jumar.advise.doctor.logs.engine.folders import LogFile
from jumar.advise.doctor.logs.engine.packed.readings import Unpacking
from jumar.advise.doctor.logs.engine.packed.streams import reason
from jumar.base.errors import InputError


def blocks_of(file: LogFile, notes: list[str]) -> Iterator[tuple[Path, bytes]]:
    """Yield the path (of a member of an archive, too) and blocks of whole lines; `notes` tell what was not read.

    Raises InputError where the file cannot be opened.
    """
    unpacking = Unpacking(file)
    try:
        for reading in unpacking.readings():
            for block in blocks(reading.stream):
                yield reading.path, block.data
    except OSError as error:
        raise InputError(f"{file.path} cannot be read ({reason(error)}); name a log file that you may read.") from error
    notes += unpacking.notes
