"""Bring up the device a plan asks for: the vendor's `torch_npu` where it imports, else the emulated NPU."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.metadata
import logging
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jumar.base.errors import DeviceError
from jumar.device.plan import (
    PLUGIN_VARIABLE,
    ActiveDevice,
    DevicePlan,
    Numerics,
    Unsupported,
    is_torch_npu_installed,
)

if TYPE_CHECKING:
    from jumar.npu.core.state import Settings

_log = logging.getLogger("jumar.device")
_active: list[ActiveDevice] = []

EMULATED = "npu (emulated)"
"""How the emulated NPU is described."""


def activate(plan: DevicePlan, *, hides_gpus: bool = True) -> ActiveDevice:
    """Bring up the planned device in this process; a second call for the same device does nothing.

    The first plan's settings stay; `emulate` changes them for a block. The emulated NPU hides the machine's GPUs,
    unless told not to: a machine with NPUs has none, and PyTorch's autograd takes one accelerator a process. Raises
    DeviceError when the device cannot be had here, or another one is already up.
    """
    if hides_gpus:
        os.environ.update(plan.hidden_gpus())  # PyTorch looks for GPUs when it is imported
    # NOTE: not at the top: `import torch` loads Jumar's own entry point, which may call this function.
    import torch

    if plan.kind == "cpu":
        return ActiveDevice(device_type="cpu", description="cpu")
    if plan.kind == "cuda":
        if not torch.cuda.is_available():
            raise DeviceError("PyTorch finds no CUDA device on this machine. Try the kind cuda-stand-in, or cpu.")
        return ActiveDevice(device_type="cuda", description="cuda", soc=torch.cuda.get_device_name())
    if not _active:
        _active.append(_bring_up(plan))
    if _active[0].device_type != ("cuda" if plan.kind == "cuda-stand-in" else "npu"):
        raise DeviceError(
            f"this process already has {_active[0].description}, and PyTorch takes one extra device; got a plan for "
            f"{plan.kind}. Use a process of its own for it."
        )
    return _active[0]


def _bring_up(plan: DevicePlan) -> ActiveDevice:
    if plan.kind == "npu" and plan.real != "never":
        real = _vendor()
        if real is not None:
            return real
        if plan.real == "require":
            raise DeviceError(
                "torch_npu does not import here, and the plan requires it. Install it, or allow the emulator."
            )
    return _emulated(plan)


def _vendor() -> ActiveDevice | None:
    """Return the vendor's device, or None after a sentence on the log when torch_npu is there and fails."""
    if not is_torch_npu_installed():
        return None
    try:
        torch_npu = importlib.import_module("torch_npu")
    except (ImportError, OSError, RuntimeError) as error:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torch_npu"]:
            del sys.modules[name]
        _log.warning("torch_npu is installed but does not import (%s); the emulated NPU takes its place.", error)
        return None
    import torch

    version = getattr(torch_npu, "__version__", "")
    npu = torch.get_device_module("npu")
    soc = str(npu.get_device_name()) if npu.is_available() else ""
    return ActiveDevice(device_type="npu", description="npu", soc=soc, torch_npu_version=version)


def _emulated(plan: DevicePlan) -> ActiveDevice:
    from jumar.npu.api import alias as torch_npu_alias
    from jumar.npu.api import backend
    from jumar.npu.api.alias import apex_finder, own_kernels
    from jumar.npu.core.state import STATE

    STATE.apply(_settings(plan))
    backend.bring_up()
    if plan.kind == "cuda-stand-in":
        from jumar.device import cuda_stand_in

        cuda_stand_in.install()
        active = ActiveDevice(device_type="cuda", description="cuda (CPU kernels standing in)", soc=plan.soc)
    else:
        torch_npu_alias.install()
        apex_finder.install()
        own_kernels.install()
        active = ActiveDevice(
            device_type="npu",
            description=EMULATED,
            soc=plan.soc,
            torch_npu_version=torch_npu_alias.VERSION,
        )
    _call_plugin()
    return active


def _settings(plan: DevicePlan) -> Settings:
    """Return the emulator's settings for a plan; the stand-in for CUDA has the CPU's numerics and every operator."""
    from jumar.npu.core.state import Settings

    chosen = {item.name: getattr(plan, item.name) for item in dataclasses.fields(Settings)}
    if plan.kind == "cuda-stand-in":
        chosen |= {"numerics": "exact", "unsupported": "fallback"}
    return Settings(**chosen)


def _call_plugin() -> None:
    target = os.environ.get(PLUGIN_VARIABLE)
    if not target:
        return
    module, _, function = target.partition(":")
    if not module or not function:
        raise DeviceError(f"{PLUGIN_VARIABLE} must be module:function; got {target!r}.")
    getattr(importlib.import_module(module), function)()


@contextlib.contextmanager
def emulate(
    soc: str = "Ascend910B1",
    *,
    num_devices: int = 8,
    numerics: Numerics = "strict",
    unsupported: Unsupported = "warn",
    memory_bytes: int | None = None,
    single_device: bool = False,
) -> Iterator[ActiveDevice]:
    """Have the emulated NPU within the block, or within the decorated function.

    The arguments are the fields of `DevicePlan`. PyTorch cannot take a device backend back, so the device
    stays in the process; what ends with the block are the settings, options and overrides made in it.
    Raises DeviceError when an argument breaks its rule, or the vendor's NPU is up.
    """
    from jumar.npu.core.state import STATE

    plan = DevicePlan(
        soc=soc,
        real="never",
        num_devices=num_devices,
        numerics=numerics,
        unsupported=unsupported,
        memory_bytes=memory_bytes,
        single_device=single_device,
    )
    if _active and _active[0].description != EMULATED:
        raise DeviceError(f"this process already has {_active[0].description}; emulate() needs a process of its own.")
    # NOTE: not with `plan`: what the device came up with is what stays when the block ends.
    active = activate(DevicePlan(real="never"), hides_gpus=False)
    before = STATE.saved()
    STATE.apply(_settings(plan))
    try:
        yield dataclasses.replace(active, soc=STATE.soc)
    finally:
        STATE.restore(before)
