"""Rules about exported files, one file each."""

from __future__ import annotations

from jumar.export.rules.atc_operator_not_taken import RULE as ATC_OPERATOR_NOT_TAKEN
from jumar.export.rules.atc_operator_unknown import RULE as ATC_OPERATOR_UNKNOWN
from jumar.export.rules.onnx_differs import RULE as ONNX_DIFFERS
from jumar.export.rules.onnx_does_not_run import RULE as ONNX_DOES_NOT_RUN
from jumar.export.rules.onnx_traced_value import RULE as ONNX_TRACED_VALUE
from jumar.export.rules.overflowing_dtype import RULE as OVERFLOWING_DTYPE

__all__ = [
    "ATC_OPERATOR_NOT_TAKEN",
    "ATC_OPERATOR_UNKNOWN",
    "ONNX_DIFFERS",
    "ONNX_DOES_NOT_RUN",
    "ONNX_TRACED_VALUE",
    "OVERFLOWING_DTYPE",
]
