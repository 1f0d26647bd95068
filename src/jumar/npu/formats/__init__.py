"""Memory formats of the emulated NPU: how the memory of each tensor is laid out, and what a conversion costs.

Values never move: the CPU kernels read plain dense memory. What is emulated is the state (`state`), the
padded size (`shapes`), the rules by which operators choose formats (`rules`) and the vendor's functions
(`cast`). The ledger (`jumar.npu.formats.ledger.ledger`) applies the rules to operators as they run.
"""

from __future__ import annotations

from jumar.npu.formats.cast import (
    copy_memory_,
    empty_with_format,
    get_npu_format,
    get_storage_size,
    npu_format_cast,
    npu_format_cast_,
    unsafe_empty_with_format,
)
from jumar.npu.formats.methods import install
from jumar.npu.formats.names import BASE_FORMATS, PRIVATE_FORMATS, Format, base_of_rank
from jumar.npu.formats.shapes import storage_bytes, storage_shape
from jumar.npu.formats.state import format_of

__all__ = [
    "BASE_FORMATS",
    "PRIVATE_FORMATS",
    "Format",
    "base_of_rank",
    "copy_memory_",
    "empty_with_format",
    "format_of",
    "get_npu_format",
    "get_storage_size",
    "install",
    "npu_format_cast",
    "npu_format_cast_",
    "storage_bytes",
    "storage_shape",
    "unsafe_empty_with_format",
]
