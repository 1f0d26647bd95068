"""Checkpoints and ONNX: a trained model in a form that loads anywhere. Importing this package imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.export.options import DTYPES, CheckpointOptions, OnnxOptions
from jumar.lazy import loader

if TYPE_CHECKING:
    from jumar.export.checkpoint import CheckpointReport, export_checkpoint
    from jumar.export.onnx import OnnxReport, export_onnx

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
    "OnnxReport": "jumar.export.onnx",
    "export_onnx": "jumar.export.onnx",
}

__getattr__ = loader(__name__, __all__, _HOME)
