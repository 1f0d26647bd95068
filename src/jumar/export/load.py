"""`load_checkpoint`: all that a checkpoint holds, in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jumar.export.formats.opening import open_document
from jumar.export.tensors import Deferred


def load_checkpoint(path: Path) -> Any:
    """Return what the file holds, tensors on the CPU. Raises InputError as `open_document`."""
    return _loaded(open_document(path).root)


def _loaded(value: Any) -> Any:
    if isinstance(value, Deferred):
        return value.read()
    if isinstance(value, dict):
        return {key: _loaded(item) for key, item in value.items()}
    return value
