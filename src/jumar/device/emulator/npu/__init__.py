"""`torch.npu` of the emulated device.

What the vendor's module has and this one does not is answered with a function or class that refuses: see
`refusals`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import torch

from jumar.device.emulator.npu import (
    aclnn,
    amp,
    attention_backends,
    graphs,
    memory,
    random,
    streams,
    utils,
)
from jumar.device.emulator.npu import autocast as autocast_utils
from jumar.device.emulator.npu import config as npu_config
from jumar.device.emulator.npu.attention_backends import (
    enable_flash_sdp,
    enable_math_sdp,
    enable_mem_efficient_sdp,
    flash_sdp_enabled,
    math_sdp_enabled,
    mem_efficient_sdp_enabled,
    preferred_linalg_library,
    sdp_kernel,
)
from jumar.device.emulator.npu.autocast import (
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from jumar.device.emulator.npu.backends import (
    _CubeMathType,
    conv,
    matmul,
)
from jumar.device.emulator.npu.config import (
    config,
    finalize_dump,
    get_device_limit,
    get_mm_bmm_format_nd,
    get_option,
    get_stream_limit,
    get_task_queue_enable,
    init_dump,
    is_jit_compile_false,
    reset_stream_limit,
    set_aoe,
    set_compile_mode,
    set_device_limit,
    set_dump,
    set_mm_bmm_format_nd,
    set_option,
    set_stream_limit,
    set_task_queue_enable,
)
from jumar.device.emulator.npu.control import (
    _lazy_call as _lazy_call,
)
from jumar.device.emulator.npu.control import (
    _lazy_init as _lazy_init,
)
from jumar.device.emulator.npu.control import (
    _sleep as _sleep,
)
from jumar.device.emulator.npu.control import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_amp_supported_dtype,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
    synchronize,
    utilization,
)
from jumar.device.emulator.npu.current_stream import (
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from jumar.device.emulator.npu.deterministic import (
    are_compatible_impl_enabled,
    disable_deterministic_with_backward,
    enable_deterministic_with_backward,
    set_deterministic_level,
    set_op_timeout_ms,
    use_compatible_impl,
)
from jumar.device.emulator.npu.graphs import (
    NPUGraph,
    NpuGraphOpHandler,
    graph,
    graph_pool_handle,
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
    is_current_stream_capturing,
    make_graphed_callables,
    register_npu_graph_handler,
    super_kernel_scope_begin,
    super_kernel_scope_end,
)
from jumar.device.emulator.npu.legacy import (
    BFloat16Storage,
    BFloat16Tensor,
    BoolStorage,
    BoolTensor,
    ByteStorage,
    ByteTensor,
    CharStorage,
    CharTensor,
    DoubleStorage,
    DoubleTensor,
    FloatStorage,
    FloatTensor,
    HalfStorage,
    HalfTensor,
    IntStorage,
    IntTensor,
    LongStorage,
    LongTensor,
    ShortStorage,
    ShortTensor,
)
from jumar.device.emulator.npu.memory import (
    MemPool,
    NPUPluggableAllocator,
    caching_allocator_alloc,
    caching_allocator_delete,
    change_current_allocator,
    empty_cache,
    empty_virt_addr_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_empty_cache,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    ipc_collect,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from jumar.device.emulator.npu.mstx import (
    mstx,
)
from jumar.device.emulator.npu.overflow import (
    clear_npu_overflow_flag,
    get_npu_overflow_flag,
)
from jumar.device.emulator.npu.profiling import (
    iteration_end,
    iteration_start,
    prof_finalize,
    prof_init,
    prof_start,
    prof_stop,
    profile,
    profileConfig,
)
from jumar.device.emulator.npu.properties import (
    get_device_capability,
    get_device_name,
    get_device_properties,
)
from jumar.device.emulator.npu.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from jumar.device.emulator.npu.streams import (
    Event,
    ExternalEvent,
    ExternalStream,
    Stream,
    SyncLaunchStream,
)
from jumar.device.emulator.npu.sync import (
    get_sync_debug_mode,
    set_sync_debug_mode,
)
from jumar.device.emulator.npu.utils import (
    _get_device_index as _get_device_index,
)
from jumar.device.emulator.npu.utils import (
    check_uce_in_memory,
    current_blas_handle,
    stress_detect,
)
from jumar.device.emulator.refusals import refused
from jumar.device.emulator.rng import default_generators as _default_generators
from jumar.device.support.public_api import module_names

OutOfMemoryError = torch.OutOfMemoryError
CubeMathType = _CubeMathType
backends: ModuleType = attention_backends
"""The vendor's module of this name is about attention; the file `backends` here holds `matmul` and `conv`."""

__all__ = [
    "BFloat16Storage",
    "BFloat16Tensor",
    "BoolStorage",
    "BoolTensor",
    "ByteStorage",
    "ByteTensor",
    "CharStorage",
    "CharTensor",
    "CubeMathType",
    "DoubleStorage",
    "DoubleTensor",
    "Event",
    "ExternalEvent",
    "ExternalStream",
    "FloatStorage",
    "FloatTensor",
    "HalfStorage",
    "HalfTensor",
    "IntStorage",
    "IntTensor",
    "LongStorage",
    "LongTensor",
    "MemPool",
    "NPUGraph",
    "NPUPluggableAllocator",
    "NpuGraphOpHandler",
    "OutOfMemoryError",
    "ShortStorage",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "SyncLaunchStream",
    "aclnn",
    "amp",
    "are_compatible_impl_enabled",
    "autocast_utils",
    "backends",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "change_current_allocator",
    "check_uce_in_memory",
    "clear_npu_overflow_flag",
    "config",
    "conv",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "disable_deterministic_with_backward",
    "empty_cache",
    "empty_virt_addr_cache",
    "enable_deterministic_with_backward",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "finalize_dump",
    "flash_sdp_enabled",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "get_device_capability",
    "get_device_limit",
    "get_device_name",
    "get_device_properties",
    "get_mm_bmm_format_nd",
    "get_npu_overflow_flag",
    "get_option",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_limit",
    "get_sync_debug_mode",
    "get_task_queue_enable",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "graphs",
    "host_empty_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "init_dump",
    "initial_seed",
    "ipc_collect",
    "is_autocast_enabled",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_jit_compile_false",
    "iteration_end",
    "iteration_start",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "math_sdp_enabled",
    "matmul",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_efficient_sdp_enabled",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "mstx",
    "npu_config",
    "preferred_linalg_library",
    "prof_finalize",
    "prof_init",
    "prof_start",
    "prof_stop",
    "profile",
    "profileConfig",
    "random",
    "register_npu_graph_handler",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "reset_stream_limit",
    "sdp_kernel",
    "seed",
    "seed_all",
    "set_aoe",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_compile_mode",
    "set_deterministic_level",
    "set_device",
    "set_device_limit",
    "set_dump",
    "set_mm_bmm_format_nd",
    "set_op_timeout_ms",
    "set_option",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_stream_limit",
    "set_sync_debug_mode",
    "set_task_queue_enable",
    "stream",
    "streams",
    "stress_detect",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
    "synchronize",
    "use_compatible_impl",
    "use_mem_pool",
    "utilization",
    "utils",
]


def _is_in_bad_fork() -> bool:
    """Return False: a forked process can go on using the emulated device."""
    return False


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return _default_generators()
    if f"torch_npu.npu.{name}" in module_names() and "torch_npu" in sys.modules:
        return importlib.import_module(f"torch_npu.npu.{name}")
    stand_in = None if name.startswith("__") else refused(f"torch_npu.npu.{name}")
    if stand_in is None:
        raise AttributeError(
            f"module 'torch.npu' has no attribute {name!r} on the emulated NPU; what it has is in `dir(torch.npu)`"
        )
    return stand_in
