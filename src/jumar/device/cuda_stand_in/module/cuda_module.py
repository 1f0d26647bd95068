"""`torch.cuda`: each name answered by its counterpart in `torch.npu`, by the identity, or refused."""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from jumar.device.cuda_stand_in import refused
from jumar.device.cuda_stand_in.module.facade import facade
from jumar.device.cuda_stand_in.names import answering_cuda, presented_as, redirected

DEVICE_NAME = "CPU kernels standing in for CUDA (Jumar)"
CAPABILITY = (8, 0)
ARCHITECTURES = ["sm_80"]
CUDA_VERSION = "12.0"
NCCL_VERSION = (2, 18, 0)
TOTAL_MEMORY_BYTES = 40 * 2**30
NUM_MULTIPROCESSORS = 108
WARP_SIZE = 32


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """What `torch.cuda.get_device_properties` answers; the fields have PyTorch's names."""

    name: str = DEVICE_NAME
    major: int = CAPABILITY[0]
    minor: int = CAPABILITY[1]
    total_memory: int = TOTAL_MEMORY_BYTES
    multi_processor_count: int = NUM_MULTIPROCESSORS
    warp_size: int = WARP_SIZE
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 48 * 2**10
    L2_cache_size: int = 40 * 2**20
    is_integrated: bool = False
    is_multi_gpu_board: bool = False
    gcnArchName: str = DEVICE_NAME
    uuid: str = "00000000-0000-0000-0000-000000000000"


_KEPT = {"CudaError", "DeferredCudaCallError", "OutOfMemoryError", "AcceleratorError", "check_error", "cudaStatus"}
"""Errors and constants that are right as they are."""


def _answer(value: Any) -> Callable[..., Any]:
    def answer(*_args: Any, **_kwargs: Any) -> Any:
        return value

    return answer


def _device_count() -> int:
    """Return the number of devices, of which CUDA_VISIBLE_DEVICES may hide some, but never all."""
    count: int = torch.npu.device_count()  # type: ignore[attr-defined]
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip() not in ("", "-1")]
    return min(count, len(visible)) if visible else count


_OWN: dict[str, Any] = {
    "device_count": _device_count,
    "get_device_name": _answer(DEVICE_NAME),
    "get_device_capability": _answer(CAPABILITY),
    "get_device_properties": _answer(DeviceProperties()),
    "get_arch_list": _answer(list(ARCHITECTURES)),
    "get_gencode_flags": _answer(""),
    "is_available": _answer(True),
    "is_initialized": _answer(True),
    "is_bf16_supported": _answer(True),
    "is_tf32_supported": _answer(True),
    "is_current_stream_capturing": _answer(False),
    "get_sync_debug_mode": _answer(0),
    "get_allocator_backend": _answer("native"),
    "can_device_access_peer": _answer(True),
    "set_sync_debug_mode": _answer(None),
    "ipc_collect": _answer(None),
    "init": _answer(None),
    "_lazy_init": _answer(None),
    "_is_in_bad_fork": _answer(False),
    "_initialized": True,
}


def _counterpart(name: str, original: Any) -> Any:
    """Return what stands for `torch.cuda.<name>`, or None when it is right as it is."""
    if name in _OWN:
        return _OWN[name]
    found = getattr(torch.npu, name, None)  # type: ignore[attr-defined]
    if isinstance(found, types.ModuleType):
        return None
    if found is not None:
        return _renamed(name, found)
    if isinstance(original, (types.FunctionType, types.BuiltinFunctionType)):
        return refused.Refused(f"torch.cuda.{name}", "take the call out, or guard it, for this run")
    return None


def _renamed(name: str, found: Any) -> Any:
    """Return what `torch.npu` has under this name, taking CUDA devices."""
    if isinstance(found, type):
        return facade(name, found)
    return redirected(found) if callable(found) else found


def _submodules() -> list[types.ModuleType]:
    cuda = torch.cuda
    return [cuda, cuda.memory, cuda.random, cuda.streams]


def install() -> None:
    """Replace the names of torch.cuda, also in the submodules that define them."""
    names = set(torch.cuda.__all__) | set(_OWN)
    for name in sorted(names - _KEPT):
        original = getattr(torch.cuda, name, None)
        made = _counterpart(name, original)
        if made is None:
            continue
        if callable(made) and not isinstance(made, type):
            presented_as(made, original)
        for module in _submodules():
            if module is torch.cuda or (hasattr(module, name) and not hasattr(types, name)):
                setattr(module, name, made)
    stream: Any = torch.npu.Stream  # type: ignore[attr-defined]
    stream.device = answering_cuda(stream.device.__get__)
    refused.install()
    _markers()
    version: Any = torch.version
    version.cuda = CUDA_VERSION
    torch.backends.cuda.is_built = presented_as(_answer(True), torch.backends.cuda.is_built)


def _markers() -> None:
    """NVTX ranges do nothing: there is no profile that they could mark."""
    nvtx: Any = torch.cuda.nvtx
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(nvtx, name, presented_as(_answer(0), getattr(nvtx, name, None)))
    nccl: Any = torch.cuda.nccl
    nccl.version = presented_as(_answer(NCCL_VERSION), nccl.version)
