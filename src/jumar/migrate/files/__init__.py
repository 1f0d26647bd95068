"""Files that are not Python sources: one module a kind; `KINDS` in the order they are asked."""

from __future__ import annotations

from pathlib import PurePosixPath

from jumar.migrate.files import cuda_source, dockerfile, readme, requirement_files, scripts
from jumar.migrate.files.config import kinds as config
from jumar.migrate.files.kind import FileKind
from jumar.migrate.files.notebook import convert as notebook

__all__ = ["KINDS", "FileKind", "kind_of"]

KINDS: tuple[FileKind, ...] = (
    notebook.NOTEBOOK,
    scripts.SHELL,
    scripts.MAKE,
    dockerfile.DOCKERFILE,
    requirement_files.REQUIREMENTS,
    config.YAML,
    config.JSON,
    config.TOML,
    config.INI,
    cuda_source.CUDA_SOURCE,
    readme.DOCUMENT,
)


def kind_of(path: str, data: bytes) -> FileKind | None:
    """Return the kind of a file, None for one that is only copied."""
    name = PurePosixPath(path)
    return next((kind for kind in KINDS if kind.matches(name, data)), None)
