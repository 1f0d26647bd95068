"""Source to source: CUDA PyTorch in, NPU PyTorch out, byte for byte the same outside the edits."""

from __future__ import annotations

from jumar.migrate.engine import convert_source
from jumar.migrate.files.python_engine import hand_in
from jumar.migrate.imports import local_modules
from jumar.migrate.options import ConvertOptions
from jumar.migrate.outcome import Failure, Outcome, Skip, Success
from jumar.migrate.project import Conversion, convert_files, convert_tree

__all__ = [
    "Conversion",
    "ConvertOptions",
    "Failure",
    "Outcome",
    "Skip",
    "Success",
    "convert_files",
    "convert_source",
    "convert_tree",
    "local_modules",
]

hand_in(convert_source)
