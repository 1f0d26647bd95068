"""Files that are not Python sources: one module a kind; `KINDS` in the order they are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from jumar.migrate.options import ConvertOptions
from jumar.migrate.outcome import Outcome
from jumar.migrate.project_facts import ProjectFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """One kind of file: how it is told by its name and first bytes, and how it is converted."""

    name: str
    matches: Callable[[PurePosixPath, bytes], bool]
    convert: Callable[[bytes, str, ConvertOptions, ProjectFacts], Outcome]


KINDS: tuple[FileKind, ...] = ()


def kind_of(path: str, data: bytes) -> FileKind | None:
    """Return the kind of a file, None for one that is only copied."""
    name = PurePosixPath(path)
    return next((kind for kind in KINDS if kind.matches(name, data)), None)
