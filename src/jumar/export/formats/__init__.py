"""File formats of checkpoints, read and written a tensor at a time."""

from __future__ import annotations

from jumar.export.formats.registry import (
    BUILT_IN,
    INSTALLED,
    MINDSPORE,
    PYTORCH,
    SAFETENSORS,
    ExportFormat,
    State,
    format_of,
    write,
)

__all__ = [
    "BUILT_IN",
    "INSTALLED",
    "MINDSPORE",
    "PYTORCH",
    "SAFETENSORS",
    "ExportFormat",
    "State",
    "format_of",
    "write",
]
