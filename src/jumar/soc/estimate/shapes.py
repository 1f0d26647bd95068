"""`OperatorShape`: what the time model knows of an operator call: names, shapes, dtypes and formats."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal

from jumar.operators import dtypes

_MORE_ITEM_BYTES = {"hifloat8": 1, "qint8": 1, "quint8": 1}
"""Bytes of one element of the dtypes that only a device or a quantised model has."""

PRIVATE_FORMATS = frozenset({"NC1HWC0", "NC1HWC0_C04", "FRACTAL_Z", "FRACTAL_NZ", "NDC1HWC0", "FRACTAL_Z_3D"})
"""Blocked and padded formats: only the device reads them."""

BLOCK = 16
"""Rows and columns of a block of the matrix unit (float16)."""

Transfer = Literal["", "host-to-device", "device-to-host"]


@dataclass(frozen=True, slots=True)
class TensorShape:
    """One tensor. `run` is the number of elements that lie together in memory, 0 where all do."""

    shape: tuple[int, ...]
    dtype: str = "float16"
    format: str = "ND"
    run: int = 0
    transposed: bool = False
    """The last two dimensions are exchanged and nothing else: matrix products read that as it is."""

    @property
    def item_bytes(self) -> int:
        """Bytes of one element; 4 for a dtype that is not known."""
        return dtypes.size_bytes(self.dtype, _MORE_ITEM_BYTES.get(self.dtype, 4))

    @property
    def num_elements(self) -> int:
        """Elements, without padding."""
        return math.prod(self.shape)

    @property
    def stored_elements(self) -> int:
        """Elements in memory, with the padding of the format."""
        if self.format not in PRIVATE_FORMATS:
            return self.num_elements
        return padded_elements(self.shape, self.format, self.item_bytes)

    @property
    def stored_bytes(self) -> int:
        """Bytes in memory, with the padding of the format."""
        return self.stored_elements * self.item_bytes


@dataclass(frozen=True, slots=True)
class Conversion:
    """A change of format that the framework inserts (TransData)."""

    source_format: str
    target_format: str
    shape: tuple[int, ...]
    dtype: str
    is_result: bool = False
    """After the operator rather than before it."""


@dataclass(frozen=True, slots=True)
class OperatorShape:
    """One operator call. `attributes` are (name, value) pairs that a cost depends on: `groups`, `output_mask`, …"""

    name: str
    """`aten::add.Tensor`, `npu::npu_rms_norm`, `c10d::allreduce_`."""
    inputs: tuple[TensorShape, ...] = ()
    outputs: tuple[TensorShape, ...] = ()
    attributes: tuple[tuple[str, Hashable], ...] = ()
    conversions: tuple[Conversion, ...] = ()
    transfer: Transfer = ""
    transfer_bytes: int = 0
    on_host: bool = False
    """The operator has no kernel on the chip: inputs go to the host and results come back."""
    num_ranks: int = 1
    is_view: bool = False
    """Nothing runs on the device."""

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the attribute `name`, or `default` where it is not given."""
        return next((value for key, value in self.attributes if key == name), default)


def ceil_div(number: int, divisor: int) -> int:
    """Return `number / divisor`, rounded up."""
    return -(-number // divisor)


def padded(number: int, multiple: int) -> int:
    """Return `number` rounded up to a multiple."""
    return ceil_div(number, multiple) * multiple


def padded_elements(shape: tuple[int, ...], format_name: str, item_bytes: int) -> int:
    """Return the elements that a private format holds for this shape: C0 is 16, and 32 for one-byte dtypes."""
    c0 = 32 if item_bytes == 1 else BLOCK
    if format_name in ("NC1HWC0", "NDC1HWC0", "NC1HWC0_C04") and len(shape) > 1:
        channels = 4 if format_name == "NC1HWC0_C04" else c0
        return math.prod((shape[0], padded(shape[1], channels), *shape[2:]))
    if format_name.startswith("FRACTAL_Z") and len(shape) > 1:
        return padded(shape[0], BLOCK) * padded(shape[1], c0) * math.prod(shape[2:])
    if format_name == "FRACTAL_NZ" and shape:
        rows = shape[-2] if len(shape) > 1 else 1
        return math.prod(shape[:-2]) * padded(rows, BLOCK) * padded(shape[-1], c0)
    return math.prod(shape)
