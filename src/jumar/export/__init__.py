"""Export a trained model as a checkpoint or as ONNX. Importing this package imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader
from jumar.export.onnx.options import OnnxOptions
from jumar.export.options import DTYPES, CheckpointOptions

if TYPE_CHECKING:
    from jumar.export.checkpoint import CheckpointReport, export_checkpoint
    from jumar.export.onnx.export import export_onnx
    from jumar.export.onnx.report import OnnxReport

__all__ = [
    "DTYPES",
    "CheckpointOptions",
    "CheckpointReport",
    "OnnxOptions",
    "OnnxReport",
    "export_checkpoint",
    "export_onnx",
]

_HOME = {
    "CheckpointReport": "jumar.export.checkpoint",
    "export_checkpoint": "jumar.export.checkpoint",
    "OnnxReport": "jumar.export.onnx.report",
    "export_onnx": "jumar.export.onnx.export",
}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
