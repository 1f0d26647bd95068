"""Files that are not Python sources: `kind_of` tells the kind of one.

The modules of the kinds are imported when the first file is asked for its kind.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from pathlib import PurePosixPath

from jumar.convert.files.draft.kind import FileKind

__all__ = ["FileKind", "is_python", "kind_of", "kinds"]

_KINDS = (
    ("notebook.convert", "NOTEBOOK"),
    ("scripts", "SHELL"),
    ("scripts", "MAKE"),
    ("containers.dockerfile", "DOCKERFILE"),
    ("requirements.requirement_files", "REQUIREMENTS"),
    ("config.kinds", "YAML"),
    ("config.kinds", "JSON"),
    ("config.kinds", "TOML"),
    ("config.kinds", "INI"),
    ("cuda_source", "CUDA_SOURCE"),
    ("readme", "DOCUMENT"),
    ("other_code", "OTHER_CODE"),
)
"""Module and name of each kind, in the order in which they are asked."""


@lru_cache(maxsize=1)
def kinds() -> tuple[FileKind, ...]:
    """Return all kinds of files, in the order in which they are asked."""
    return tuple(getattr(importlib.import_module(f"{__name__}.{module}"), name) for module, name in _KINDS)


def kind_of(path: str, data: bytes) -> FileKind | None:
    """Return the kind of a file, None for one that is only copied."""
    name = PurePosixPath(path)
    return next((kind for kind in kinds() if kind.matches(name, data)), None)


def is_python(path: str, data: bytes) -> bool:
    """Tell whether a file is a Python source: by its name, or by its first line where the name has no ending."""
    name = PurePosixPath(path)
    if name.suffix in (".py", ".pyw", ".pyi"):
        return True
    return not name.suffix and data.startswith(b"#!") and b"python" in data.split(b"\n", 1)[0]
