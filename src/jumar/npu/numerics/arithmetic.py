"""Which arithmetic the chip and its switches ask for: saturation or IEEE, and what the matrix unit multiplies.

Sources: torch_npu's `NpuVariables.cpp` (Inf and NaN), `CalcuOpUtil.cpp` and `EnvVariables.cpp` (how the options
become a cube math type), the aclnn pages of ops-nn (what a type means on each chip).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from jumar.npu.core.state import STATE
from jumar.soc.profiles import SocProfile

CubeMath = Literal["keep", "hf32", "float16"]
"""What float32 operands of the matrix unit become: themselves, HF32, or float16."""

PRECISION, MATMUL, CONVOLUTION, CUBE = "ACL_PRECISION_MODE", "ALLOW_MATMUL_HF32", "ALLOW_CONV_HF32", "CUBE_MATH_TYPE"
"""Options of `torch.npu.set_option` that are read here; CUBE_MATH_TYPE is set by `torch.npu.matmul.cube_math_type`."""

_KEEP_DTYPE, _ALLOW_DOWN, _USE_FP16, _USE_HF32, _USE_FP32_ADD = range(5)


def is_strict() -> bool:
    """Return whether the chip's arithmetic is asked for, and not the CPU's bits."""
    return STATE.settings.numerics == "strict"


def saturates(profile: SocProfile) -> bool:
    """Return whether results that overflow become the largest number and NaN becomes 0 on this chip, here and now.

    Where the chip has both modes (A2, A3), INF_NAN_MODE_FORCE_DISABLE=1 asks for saturation. Raises
    RuntimeError as torch_npu does for INF_NAN_MODE_ENABLE=0 alone, and for values other than 0 and 1.
    """
    if len(profile.overflow_modes) == 1:
        return profile.overflow == "saturation"
    forced = _switch("INF_NAN_MODE_FORCE_DISABLE", "0")
    if not _switch("INF_NAN_MODE_ENABLE", "1") and not forced:
        raise RuntimeError(
            "INF_NAN_MODE_ENABLE shouldn't be set to 0 on the current device. If you want to disable inf-nan mode, "
            "please export INF_NAN_MODE_FORCE_DISABLE=1"
        )
    return forced or profile.overflow == "saturation"


def _switch(name: str, default: str) -> bool:
    value = os.environ.get(name, default) or default
    if value not in ("0", "1"):
        raise RuntimeError(f"{name} should be 0 or 1.")
    return value == "1"


def allows_float16(profile: SocProfile, options: Mapping[str, Any]) -> bool:
    """Return whether float32 operands may become float16: `ACL_PRECISION_MODE`, by default yes before Ascend910B1."""
    mode = options.get(PRECISION)
    if mode in ("allow_fp32_to_fp16", "must_keep_origin_dtype"):
        return bool(mode == "allow_fp32_to_fp16")
    return not profile.is_aclnn_default


def matmul_math(profile: SocProfile, options: Mapping[str, Any]) -> CubeMath:
    """Return what matrix products make of float32 operands. HF32 only if `torch.npu.matmul.allow_hf32`."""
    wanted = options.get(CUBE)
    kind = int(wanted) if wanted else _code(options.get(MATMUL) == "enable", allows_float16(profile, options))
    return _meaning(kind, profile)


def convolution_math(profile: SocProfile, options: Mapping[str, Any]) -> CubeMath:
    """Return what convolutions make of float32 operands. HF32 unless `torch.npu.conv.allow_hf32` is off."""
    return _meaning(_code(options.get(CONVOLUTION) != "disable", allows_float16(profile, options)), profile)


def _code(allow_hf32: bool, allow_float16: bool) -> int:
    if allow_hf32:
        return _ALLOW_DOWN if allow_float16 else _USE_HF32
    return _USE_FP16 if allow_float16 else _KEEP_DTYPE


def _meaning(kind: int, profile: SocProfile) -> CubeMath:
    if profile.has_float32_cube is None:  # not known: the CPU's arithmetic stands
        return "keep"
    if profile.has_float32_cube:
        if kind == _USE_FP16:
            return "float16"
        return "hf32" if kind in (_ALLOW_DOWN, _USE_HF32) and profile.has_hf32 else "keep"
    return "float16" if kind in (_ALLOW_DOWN, _USE_FP16) else "keep"
