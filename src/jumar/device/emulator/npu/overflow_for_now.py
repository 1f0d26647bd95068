"""The overflow flag, until `npu.overflow` is there."""

from __future__ import annotations

try:
    from jumar.device.emulator.npu.overflow import (
        clear_npu_overflow_flag,
        get_npu_overflow_flag,
        is_support_inf_nan,
        npu_check_overflow,
    )
except ModuleNotFoundError:
    from jumar.device.emulator.refusals import function

    clear_npu_overflow_flag = function("torch_npu.npu.clear_npu_overflow_flag")
    get_npu_overflow_flag = function("torch_npu.npu.get_npu_overflow_flag")
    npu_check_overflow = function("torch_npu.npu.utils.npu_check_overflow")

    def is_support_inf_nan():
        return True
