"""Checkpoints and ONNX: a trained model in a form that loads anywhere. Importing this package imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumar.export.options import DTYPES, CheckpointOptions, OnnxOptions

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

_HOMES = {
    "CheckpointReport": "checkpoint",
    "export_checkpoint": "checkpoint",
    "OnnxReport": "onnx",
    "export_onnx": "onnx",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'jumar.export' has no attribute {name!r}; it has {', '.join(__all__)}")
    import importlib

    return getattr(importlib.import_module(f"jumar.export.{_HOMES[name]}"), name)
