"""`torch.npu.matmul` and `torch.npu.conv`: may float32 products be computed in HF32?"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from jumar.npu.api.npu import config
from jumar.npu.core.state import STATE
from jumar.npu.numerics import arithmetic

__all__ = ["conv", "matmul"]


class _CubeMathType(IntEnum):
    """How float32 matrix products are computed, whatever `allow_hf32` says."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3
    USE_FP32_ADD = 4


class _Switch:
    """`allow_hf32` of one kind of operator; an option of the runtime behind it."""

    _option: str
    _default: bool

    @property
    def allow_hf32(self) -> bool:
        """Whether float32 operands may be rounded to HF32 (11 bits of mantissa). Setting takes a bool."""
        chosen = STATE.options.get(self._option)
        return self._default if not chosen else bool(chosen == "enable")

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"allow_hf32 must be a bool, but got {type(value).__name__}")
        config.remember({self._option: "enable" if value else "disable"})


class _Convolution(_Switch):
    """`torch.npu.conv`: on by default."""

    _option, _default = arithmetic.CONVOLUTION, True


class _Matmul(_Switch):
    """`torch.npu.matmul`: off by default."""

    _option, _default = arithmetic.MATMUL, False

    @property
    def cube_math_type(self) -> _CubeMathType | None:
        """How float32 products are computed, as set; None: as `allow_hf32` and the precision mode say."""
        chosen = STATE.options.get(arithmetic.CUBE)
        return _CubeMathType(int(chosen)) if chosen else None

    @cube_math_type.setter
    def cube_math_type(self, value: Any) -> None:
        if not isinstance(value, _CubeMathType):
            raise TypeError(
                f"value should be one of Enum CubeMathType when setting cube_math_type, but got {type(value)}"
            )
        config.remember({arithmetic.CUBE: str(int(value))})


matmul = _Matmul()
conv = _Convolution()
