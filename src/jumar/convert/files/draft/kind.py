"""`FileKind`: how a kind of file is recognised and converted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Outcome
from jumar.convert.model.project import ProjectFacts

MAX_SIZE_BYTES = 2 << 20
"""Scripts and configurations that people write are far smaller; larger files are data."""

_FIRST_BYTES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """One kind of file: how it is told by its name and first bytes, and how it is converted."""

    name: str
    matches: Callable[[PurePosixPath, bytes], bool]
    convert: Callable[[bytes, str, ConvertOptions, ProjectFacts], Outcome]


def is_text(data: bytes, max_size_bytes: int = MAX_SIZE_BYTES) -> bool:
    """Tell whether `data` may be text that a person wrote: not huge, and without the bytes of binary formats."""
    if len(data) > max_size_bytes:
        return False
    return data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" not in data[:_FIRST_BYTES]
