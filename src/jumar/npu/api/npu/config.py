"""`torch_npu.npu.npu_config`: options of the vendor's runtime and compiler.

They are checked as the vendor's build checks them and kept in `STATE.options`, under the vendor's names; the
parts of the emulator that an option concerns look there.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from jumar.npu.core.state import STATE, set_options
from jumar.npu.dump import finalize_dump, init_dump, set_aoe, set_dump
from jumar.npu.formats.mode import allows_internal, is_online, keeps_matmul_dense

__all__ = [
    "finalize_dump",
    "get_device_limit",
    "get_mm_bmm_format_nd",
    "get_option",
    "get_stream_limit",
    "get_task_queue_enable",
    "init_dump",
    "is_jit_compile_false",
    "reset_stream_limit",
    "set_aoe",
    "set_compile_mode",
    "set_device_limit",
    "set_dump",
    "set_mm_bmm_format_nd",
    "set_option",
    "set_stream_limit",
    "set_task_queue_enable",
]

_SWITCH = ("enable", "disable")


def _is_core_count(value: str) -> bool:
    return value.isdecimal() and 1 <= int(value) <= 32


CHECKS: dict[str, tuple[str, ...] | Callable[[str], bool]] = {
    "ACL_PRECISION_MODE": ("allow_fp32_to_fp16", "must_keep_origin_dtype"),
    "ACL_OP_SELECT_IMPL_MODE": ("high_performance", "high_precision"),
    "ACL_AICORE_NUM": _is_core_count,
    "ACL_OP_DEBUG_LEVEL": ("0", "1", "2", "3", "4"),
    "ACL_OP_COMPILER_CACHE_MODE": ("disable", "enable", "force"),
}
"""Option -> the values it takes; an option that is not here takes any."""

KNOWN = frozenset(CHECKS) | {
    "ACL_DEBUG_DIR",
    "ACL_OPTYPELIST_FOR_IMPLMODE",
    "ACL_OP_COMPILER_CACHE_DIR",
    "ACL_OP_DEBUG_OPTION",
    "ALLOW_CONV_HF32",
    "ALLOW_INTERNAL_FORMAT",
    "ALLOW_MATMUL_HF32",
    "CUBE_MATH_TYPE",
    "FORCE_ACLNN_OP_LIST",
    "MM_BMM_ND_ENABLE",
    "NPU_FUZZY_COMPILE_BLACKLIST",
    "OP_HOOK_ENABLE",
    "STRONG_CONSISTENCY",
    "TORCH_NPU_USE_COMPATIBLE_IMPL",
    "autotune",
    "autotunegraphdumppath",
    "bmmv2_enable",
    "jitCompile",
    "jitCompileInit",
    "mdldumpconfigpath",
    "mdldumpswitch",
}
"""Every option that the vendor's runtime registers (torch_npu 2.13); another name is an error."""

_DEPRECATED = frozenset({"ACL_OP_SELECT_IMPL_MODE", "ACL_OPTYPELIST_FOR_IMPLMODE"})
_ONLY_DISABLED_WHERE_ACLNN_ONLY = frozenset({"jitCompile", "ALLOW_INTERNAL_FORMAT"})


def set_option(option: dict[str, Any]) -> None:
    """Set options such as `{"ACL_PRECISION_MODE": "allow_fp32_to_fp16"}`; values become text, in `option` too.

    Raises TypeError for no dict, ValueError for a value that the option does not take, RuntimeError for an
    option that the vendor's runtime does not have. Nothing is set when one of them is wrong.
    """
    if not isinstance(option, dict):
        raise TypeError("npu option must be a dict.")
    for name, value in option.items():
        _check(name, str(value))
    option |= {name: str(value) for name, value in option.items()}
    for name in option:
        if name in _DEPRECATED:
            warnings.warn(f"{name} will be deprecated in a future version of torch_npu; do not set it.", stacklevel=2)
    remember(option)


def _check(name: str, value: str) -> None:
    allowed = CHECKS.get(name)
    if allowed is None:
        if name not in KNOWN:
            raise RuntimeError(f"invalid npu option name:{name}")
    elif callable(allowed):
        if not allowed(value):
            raise ValueError(f"value of {name} should be a whole number from 1 to 32 but got {value}")
    elif value not in allowed:
        raise ValueError(f"value of {name} should be in {list(allowed)} but got {value}")


def remember(options: Mapping[str, Any]) -> None:
    """Keep options that are checked, and tell the parts of the emulator that depend on settings."""
    chosen = dict(options)
    for name, value in options.items():
        if STATE.profile.is_aclnn_only and name in _ONLY_DISABLED_WHERE_ACLNN_ONLY and value == "enable":
            chosen[name] = "disable"
            warnings.warn(f"{STATE.soc} only supports {name}=disable; enable has been reverted.", stacklevel=3)
    set_options(chosen)


def get_option(name: str) -> str | None:
    """Return what `set_option` was given under this name, or None. Not a public name of the vendor's."""
    found = STATE.options.get(name)
    return None if found is None else str(found)


def set_compile_mode(jit_compile: bool = False) -> None:
    """Choose whether operators are compiled online for each new shape."""
    remember({"jitCompile": "enable" if jit_compile else "disable"})


def is_jit_compile_false() -> bool:
    """Return whether online compilation is off: as set, else by the SoC (on before Ascend910B1)."""
    return not is_online()


def set_mm_bmm_format_nd(is_nd: bool = True) -> None:
    """Choose whether mm and bmm compute in ND rather than in a private format."""
    remember({"MM_BMM_ND_ENABLE": "enable" if is_nd else "disable"})


def get_mm_bmm_format_nd() -> bool:
    """Return whether mm and bmm compute in ND, True by default."""
    return keeps_matmul_dense()


def _cores() -> dict[str, int | None]:
    return {"cube_core_num": STATE.profile.num_cube_cores, "vector_core_num": STATE.profile.num_vector_cores}


def _limited(key: str, before: Mapping[str, int | None], cube_num: int, vector_num: int) -> None:
    chosen = dict(before)
    if cube_num != -1:
        chosen["cube_core_num"] = cube_num
    if vector_num != -1:
        chosen["vector_core_num"] = vector_num
    for name, value in chosen.items():
        most = _cores()[name]
        if value is not None and (value < 1 or (most is not None and value > most)):
            raise RuntimeError(f"{name} must be from 1 to {most}, the cores of {STATE.soc}, or -1; got {value}.")
    remember({key: chosen})


def _device_key(device: Any) -> str:
    from jumar.npu.core.devices import num_visible

    if isinstance(device, bool) or not isinstance(device, int):
        raise TypeError(f"device must be an int, but got {type(device).__name__}")
    if not 0 <= device < num_visible():
        raise AssertionError("Invalid device id")
    return f"device_limit:{device}"


def set_device_limit(device: int, cube_num: int = -1, vector_num: int = -1) -> None:
    """Let work on a device use at most this many cores; -1 changes nothing. Once a process, as with the vendor.

    Raises TypeError for a device that is no int, AssertionError for one that there is not, RuntimeError for
    more cores than the SoC has and for a second call.
    """
    key = _device_key(device)
    if any(name.startswith("device_limit:") for name in STATE.options):
        raise RuntimeError("Function 'set_device_limit' has already been called, You can only set this interface once.")
    _limited(key, _cores(), cube_num, vector_num)


def get_device_limit(device: int) -> dict[str, int | None]:
    """Return `cube_core_num` and `vector_core_num` of a device; None where the SoC's are not public."""
    return dict(STATE.options.get(_device_key(device), _cores()))


def _stream_key(stream: Any) -> str:
    from jumar.npu.runtime.streams import Stream

    if stream is None:
        raise AssertionError("stream cannot be None")
    if not isinstance(stream, Stream):
        raise AssertionError(f"stream should be torch_npu.npu.Stream, could not be {type(stream)}")
    return f"stream_limit:{stream.device_index}:{stream.stream_id}"


def set_stream_limit(stream: Any, cube_num: int = -1, vector_num: int = -1) -> None:
    """Let work on a stream use at most this many cores; -1 changes nothing. Raises as `set_device_limit`."""
    _limited(_stream_key(stream), get_stream_limit(stream), cube_num, vector_num)


def get_stream_limit(stream: Any) -> dict[str, int | None]:
    """Return `cube_core_num` and `vector_core_num` of a stream: its own limits, else its device's."""
    return dict(STATE.options.get(_stream_key(stream), get_device_limit(stream.device_index)))


def reset_stream_limit(stream: Any) -> None:
    """Take the limits of a stream back."""
    STATE.options.pop(_stream_key(stream), None)


TASK_QUEUE = "TASK_QUEUE_ENABLE"


def set_task_queue_enable(level: int) -> None:
    """Keep how far launches of operators are queued: 0 not, 1 or 2. There is no queue here.

    The name is in the vendor's wheel and in none of its documents; that it takes the levels of the environment
    variable TASK_QUEUE_ENABLE is a reading of its name. Raises ValueError for another level.
    """
    if level not in (0, 1, 2):
        raise ValueError(f"the level of the task queue must be 0, 1 or 2; got {level!r}.")
    remember({TASK_QUEUE: str(int(level))})


def get_task_queue_enable() -> int:
    """Return the level as set, else the environment's, else 1."""
    return int(get_option(TASK_QUEUE) or os.environ.get(TASK_QUEUE) or 1)


class _Config:
    """`torch.npu.config`: switches that are attributes."""

    @property
    def allow_internal_format(self) -> bool:
        """Whether operators may keep tensors in private formats: as set, else by the SoC."""
        return allows_internal()

    @allow_internal_format.setter
    def allow_internal_format(self, value: bool) -> None:
        remember({"ALLOW_INTERNAL_FORMAT": "enable" if value else "disable"})


config = _Config()
