"""Rules about exported files, one file each."""

from __future__ import annotations

from jumar.export.rules.onnx_differs import RULE as ONNX_DIFFERS
from jumar.export.rules.overflowing_dtype import RULE as OVERFLOWING_DTYPE

__all__ = ["ONNX_DIFFERS", "OVERFLOWING_DTYPE"]
