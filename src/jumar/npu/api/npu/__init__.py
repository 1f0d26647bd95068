"""`torch.npu` of the emulated device.

Each module below and of `jumar.npu.runtime` names in its `__all__` what it adds to `torch.npu`. What the vendor's
module has and this one does not is answered with a function or class that refuses: see `refusals`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import torch

from jumar.npu import amp as amp
from jumar.npu.amp import autocast_utils
from jumar.npu.api.npu import aclnn as aclnn
from jumar.npu.api.npu import attention_backends, deterministic, legacy, profiling, utils
from jumar.npu.api.npu import backends as products
from jumar.npu.api.npu import config as npu_config
from jumar.npu.api.npu.utils import _get_device_index as _get_device_index
from jumar.npu.core.refusals import refused
from jumar.npu.dispatch.rng import default_generators as _default_generators
from jumar.npu.runtime import control, current_stream, graphs, memory, overflow, properties, random, streams, sync
from jumar.npu.runtime import mstx as markers
from jumar.npu.runtime.control import _lazy_call as _lazy_call
from jumar.npu.runtime.control import _lazy_init as _lazy_init
from jumar.npu.runtime.control import _sleep as _sleep
from jumar.soc.support.public_api import module_names

_PARTS = (
    *(attention_backends, autocast_utils, products, npu_config, control, current_stream, deterministic, graphs, legacy),
    *(memory, profiling, properties, random, streams, sync),
)
"""Modules whose public names are all names of `torch.npu`."""

_LEVELS = ("set_deterministic_level", "set_op_timeout_ms")
_MORE = {
    deterministic: ("are_compatible_impl_enabled", "use_compatible_impl", *_LEVELS),
    overflow: ("clear_npu_overflow_flag", "get_npu_overflow_flag"),
    markers: ("mstx",),
    utils: ("check_uce_in_memory", "current_blas_handle", "stress_detect"),
}
_FOUND = {name: getattr(part, name) for part in _PARTS for name in part.__all__}
_FOUND |= {name: getattr(part, name) for part, names in _MORE.items() for name in names}
globals().update(_FOUND)

OutOfMemoryError = torch.OutOfMemoryError
CubeMathType = products._CubeMathType
config = npu_config.config
backends: ModuleType = attention_backends
"""The vendor's module of this name is about attention; the file `backends` here holds `matmul` and `conv`."""

_BELOW = (
    "aclnn",
    "amp",
    "autocast_utils",
    "backends",
    "graphs",
    "memory",
    "npu_config",
    "random",
    "streams",
    "utils",
)
__all__ = sorted((*_FOUND, *_BELOW, "CubeMathType", "OutOfMemoryError", "config"))  # noqa: PLE0605


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
