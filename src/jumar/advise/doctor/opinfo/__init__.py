"""OP_INFO: the operators that plogs say were compiled and run, as document 004 gathers them."""

from __future__ import annotations

from jumar.advise.doctor.opinfo.description import Description, Tensor
from jumar.advise.doctor.opinfo.gather import Gathered, Later, OperatorType, Variant, gather
from jumar.advise.doctor.opinfo.summary import FILE_NAME, summary_text

__all__ = [
    "FILE_NAME",
    "Description",
    "Gathered",
    "Later",
    "OperatorType",
    "Tensor",
    "Variant",
    "gather",
    "summary_text",
]
