"""Register the emulated device with PyTorch: once per process, because PyTorch cannot remove a backend."""

from __future__ import annotations

from typing import Any

import torch

from jumar.base.errors import DeviceError
from jumar.npu import dump, formats, numerics
from jumar.npu.amp import autocast_kernels as autocast
from jumar.npu.amp import hooks as amp_hooks
from jumar.npu.api import npu
from jumar.npu.api.npu import profiling
from jumar.npu.api.pytorch import accelerator, backward, compile_, modules
from jumar.npu.core import plans, retag, scalars, single_device
from jumar.npu.core.state import STATE
from jumar.npu.core.versions.registration import register_backend
from jumar.npu.dispatch import multiple, register, rng
from jumar.npu.formats.ledger import ledger
from jumar.npu.memory import pinned, sharing, storage
from jumar.npu.ops import custom, installed, kernels, sparse
from jumar.npu.ops.kernels import adapter
from jumar.npu.ops.triton import hooks as triton
from jumar.npu.parallel import data_parallel, hccl

_libraries: list[Any] = []
"""Kept alive: PyTorch drops the kernels of a library that is collected."""


def _library(namespace: str) -> Any:
    make: Any = torch.library.Library
    _libraries.append(make(namespace, "IMPL"))
    return _libraries[-1]


def bring_up() -> None:
    """Register the npu device with PyTorch. Raises DeviceError when this PyTorch cannot have it."""
    if STATE.active:
        return
    name = torch._C._get_privateuse1_backend_name()
    if name != "privateuseone":
        raise DeviceError(
            f"PyTorch has room for one extra device backend per process, and {name!r} holds it. "
            "Start the run without importing the library that registers it."
        )
    retag.check_layout()
    scalars.prepare()
    register_backend("npu", npu)
    library = _library("aten")
    register.register_all(library.m, kernels.SPECIAL, kernels.COMPOSITES, kernels.AUTOGRAD)
    fallback = _library("_")
    register.register_fallback(fallback)
    autocast.register(library.m, fallback)
    pinned.register(library.m)
    sparse.register(library.m, fallback)
    for part in (
        storage,
        sharing,
        backward,
        rng,
        accelerator,
        modules,
        hccl,
        ledger,
        formats,
        custom,
        installed,
        triton,
        compile_,
        single_device,
        data_parallel,
        numerics,
        adapter,
        dump,
        profiling,
    ):
        part.install()
    STATE.on_multiple.append(multiple.install)
    STATE.on_settings.append(plans.reset)
    amp_hooks.register()
    STATE.active = True
