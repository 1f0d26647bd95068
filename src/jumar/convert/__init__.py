"""Source to source: CUDA PyTorch in, NPU PyTorch out. Bytes outside the edits stay as they are.

The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.convert.engine.file import convert_source
    from jumar.convert.engine.imports import local_modules
    from jumar.convert.engine.project import Conversion, convert_files, convert_tree
    from jumar.convert.model.options import ConvertOptions
    from jumar.convert.model.outcome import Failure, Outcome, Skip, Success

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

_HOMES = {
    "Conversion": "jumar.convert.engine.project",
    "ConvertOptions": "jumar.convert.model.options",
    "Failure": "jumar.convert.model.outcome",
    "Outcome": "jumar.convert.model.outcome",
    "Skip": "jumar.convert.model.outcome",
    "Success": "jumar.convert.model.outcome",
    "convert_files": "jumar.convert.engine.project",
    "convert_source": "jumar.convert.engine.file",
    "convert_tree": "jumar.convert.engine.project",
    "local_modules": "jumar.convert.engine.imports",
}

__getattr__ = loader(__name__, __all__, _HOMES)
__dir__ = directory(__name__, __all__)
