"""Which module of the emulator answers for which module of torch_npu."""

from __future__ import annotations

import functools
import importlib.util

from jumar.soc.support.public_api import module_names

_EMULATOR = "jumar.npu"
_API = f"{_EMULATOR}.api"
_NPU = f"{_API}.npu"
_RUNTIME = f"{_EMULATOR}.runtime"

_BY_NAME = {
    "torch_npu._C": f"{_API}.alias.private",
    "torch_npu.atb": f"{_API}.atb",
    "torch_npu.npu": _NPU,
    "torch_npu.npu._backends": f"{_NPU}.attention_backends",
    "torch_npu.npu.aclnn": f"{_NPU}.aclnn",
    "torch_npu.npu.aclnn.backends": f"{_NPU}.aclnn.backends",
    "torch_npu.npu.amp": f"{_EMULATOR}.amp",
    "torch_npu.npu.amp.autocast_mode": f"{_EMULATOR}.amp.autocast_mode",
    "torch_npu.npu.amp.common": f"{_EMULATOR}.amp.common",
    "torch_npu.npu.amp.grad_scaler": f"{_EMULATOR}.amp.grad_scaler",
    "torch_npu.npu.amp.sharded_grad_scaler": f"{_EMULATOR}.amp.sharded_grad_scaler",
    "torch_npu.npu.autocast_utils": f"{_EMULATOR}.amp.autocast_utils",
    "torch_npu.npu.backends": f"{_NPU}.attention_backends",
    "torch_npu.npu.deterministic": f"{_NPU}.deterministic",
    "torch_npu.npu.graphs": f"{_RUNTIME}.graphs",
    "torch_npu.npu.memory": f"{_RUNTIME}.memory",
    "torch_npu.npu.mstx": f"{_RUNTIME}.mstx",
    "torch_npu.npu.npu_config": f"{_NPU}.config",
    "torch_npu.npu.random": f"{_RUNTIME}.random",
    "torch_npu.npu.streams": f"{_RUNTIME}.streams",
    "torch_npu.npu.utils": f"{_NPU}.utils",
    "torch_npu.distributed.distributed_c10d": f"{_EMULATOR}.parallel.distributed",
    "torch_npu.utils.storage": f"{_API}.utils.serialization",
}

_BY_PREFIX = {
    "torch_npu.contrib": f"{_API}.contrib",
    "torch_npu.distributed": f"{_EMULATOR}.parallel.distributed",
    "torch_npu.jit": f"{_API}.jit",
    "torch_npu.multiprocessing": f"{_EMULATOR}.parallel.multiprocessing",
    "torch_npu.optim": f"{_API}.optim",
    "torch_npu.profiler": f"{_EMULATOR}.profiler",
    "torch_npu.testing": f"{_API}.testing",
    "torch_npu.utils": f"{_API}.utils",
}
"""Packages that have the vendor's tree below them."""

TRANSFER = "torch_npu.contrib.transfer_to_npu"
"""The import itself does the work: see `transfer_to_npu`."""

ROOT_NAMES = {
    "_ShardedGradScaler": f"{_EMULATOR}.amp.sharded_grad_scaler",
    "erase_stream": f"{_RUNTIME}.streams",
    "matmul_checksum": f"{_API}.utils.checksum",
}
"""Names of `torch_npu` itself and where they are."""

ROOT_MODULES = (f"{_EMULATOR}.formats",)
"""Modules whose public names are names of `torch_npu`: `npu_format_cast`, `Format`."""

CUSTOM = f"{_EMULATOR}.ops.custom"
"""The package of the custom operators: `torch_npu.npu_rms_norm` is `custom.function("npu_rms_norm")`."""

BOOST = f"{_API}.atb"
"""The operators of the vendor's transformer library, some of which are names of `torch_npu` itself."""


@functools.cache
def home(name: str) -> str | None:
    """Return the emulator's module behind the vendor's module `name`, or None when there is none."""
    if name in _BY_NAME:
        return _existing(_BY_NAME[name])
    for prefix, target in _BY_PREFIX.items():
        if name == prefix or name.startswith(f"{prefix}."):
            return _existing(target + name.removeprefix(prefix))
    return None


def is_module(name: str) -> bool:
    """Return whether `import name` works: the vendor has this module, even if all names in it are refused."""
    return name in module_names() or name == TRANSFER or home(name) is not None


def _existing(module: str) -> str | None:
    try:
        return module if importlib.util.find_spec(module) is not None else None
    except ModuleNotFoundError:  # a parent of it is missing
        return None
