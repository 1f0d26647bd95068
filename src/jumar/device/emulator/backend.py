"""Bring the emulated device up: once per process, and for good (PyTorch cannot take a backend back)."""

from __future__ import annotations

from typing import Any

import torch

from jumar.device.emulator import (
    accelerator,
    autocast,
    backward,
    compile_,
    custom,
    data_parallel,
    dump,
    formats,
    hccl,
    kernels,
    ledger,
    modules,
    multiple,
    npu,
    numerics,
    pinned,
    plans,
    register,
    retag,
    rng,
    scalars,
    sharing,
    single_device,
    sparse,
    storage,
)
from jumar.device.emulator.npu import profiling
from jumar.device.emulator.state import STATE
from jumar.errors import DeviceError

_libraries: list[Any] = []
"""Kept alive: PyTorch drops the kernels of a library that is collected."""


class _Guard(torch._C._acc.DeviceGuard):
    def type_(self) -> Any:
        return torch._C._autograd.DeviceType.PrivateUse1


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return True

    def has_primary_context(self, index: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


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
    setup = torch.utils.backend_registration._setup_privateuseone_for_python_backend
    setup("npu", npu, _Hooks(), _Guard())
    library = _library("aten")
    register.register_all(library.m, kernels.SPECIAL, kernels.COMPOSITES)
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
        compile_,
        single_device,
        data_parallel,
        numerics,
        dump,
        profiling,
    ):
        part.install()
    STATE.on_multiple.append(multiple.install)
    STATE.on_settings.append(plans.reset)
    STATE.active = True
