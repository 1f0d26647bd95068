"""Count the devices and choose the current one."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch

from jumar.npu.core.devices import index_from, num_visible, set_current
from jumar.npu.core.refusals import error_line
from jumar.npu.core.state import CURRENT, STATE
from jumar.npu.memory import memory

__all__ = [
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_amp_supported_dtype",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "set_device",
    "synchronize",
    "utilization",
]

_ACL_CONFIG = "TORCH_ACL_INIT_CONFIG_PATH"
_OP_INIT_MODE = "ACL_OP_INIT_MODE"
_ADD = 'Add: "defaultDevice": {"default_device": "0"}'
_CYCLES_PER_SECOND = 1_000_000_000
"""For a SoC whose clock is not public."""


def is_available() -> bool:
    """Return whether a device is visible: the emulated ones are always there."""
    return num_visible() > 0


_used: list[bool] = []
"""Not empty once a device was chosen, or asked for."""


def is_initialized() -> bool:
    """Return whether this process has used a device: chosen one, or had a tensor there.

    PyTorch asks this before it chooses a device itself, for a mesh of devices from the local rank.
    """
    if not _used and any(held.log or held.allocator.reserved for held in memory.DEVICES):
        _used.append(True)
    return bool(_used)


def init() -> None:
    """Make the device count as used, after the checks of the environment that the vendor makes then."""
    if not _used:
        _check_acl_config(os.environ.get(_ACL_CONFIG))
        _check_op_init_mode(os.environ.get(_OP_INIT_MODE))
        _used.append(True)


def _check_acl_config(given: str | None) -> None:
    """Raise RuntimeError for a file of TORCH_ACL_INIT_CONFIG_PATH that the vendor refuses; its dumps are not made.

    Source: `npu_sys_ctrl.cpp` of Ascend/pytorch, for CANN 8.3 and later, as which the emulator answers.
    """
    if not given:
        return
    path = Path(given)
    if not path.exists():
        _refuse_config(f"{_ACL_CONFIG} {given} is invalid. Set it to the path of a JSON file.")
    try:
        config = json.loads(path.read_text("utf-8"))
    except OSError as error:
        _refuse_config(f"Failed to open user acl json {given}: {error}. Make the file readable.", error)
    except ValueError as error:
        _refuse_config(f"Failed to parse user acl json {given}: {error}. Write valid JSON into it.", error)
    default = config.get("defaultDevice") if isinstance(config, dict) else None
    if not isinstance(default, dict):
        _refuse_config(f"User acl json {given} lacks 'defaultDevice' object, required for lazy set_device mode. {_ADD}")
    if default.get("default_device") != "0":
        _refuse_config(f"User acl json {given} requires 'defaultDevice.default_device' to be \"0\". {_ADD}")


def _refuse_config(message: str, cause: Exception | None = None) -> NoReturn:
    raise RuntimeError(message + error_line("PTA", 9, "resource unavailable")) from cause


def _check_op_init_mode(given: str | None) -> None:
    """Warn of a value of ACL_OP_INIT_MODE that the vendor does not know; operators of both kinds work here anyway."""
    if given is None:
        return
    if STATE.profile.is_aclnn_only and given != "2":
        warnings.warn(f"This device only supports {_OP_INIT_MODE}=2 (aclops disabled), but got {given}.", stacklevel=3)
    elif given not in ("0", "1", "2"):
        message = f"Get env {_OP_INIT_MODE} not in [0, 1, 2], so reset it to the default value."
        warnings.warn(message, stacklevel=3)


def _lazy_init() -> None:
    """Do nothing: PyTorch calls this already when the emulated device comes up."""


def _lazy_call(cb: Callable[[], Any]) -> None:
    """Call `cb` now: the device is initialised."""
    cb()


def _sleep(cycles: int) -> None:
    """Keep the device, which is the host here, busy for that many cycles of the SoC's clock."""
    mhz = STATE.profile.frequency_mhz
    time.sleep(cycles / (mhz * 1_000_000 if mhz else _CYCLES_PER_SECOND))


def device_count() -> int:
    """Return the number of logical devices that ASCEND_RT_VISIBLE_DEVICES leaves visible."""
    return num_visible()


def current_device() -> int:
    """Return the index of the calling thread's current device."""
    return CURRENT.device


def set_device(device: Any) -> None:
    """Make `device` (index, name or torch.device) current in this thread.

    Raises RuntimeError for an index that there is not.
    """
    set_current(index_from(device))
    init()


def synchronize(device: Any = None) -> None:
    """Return at once: kernels of the emulated device finish before they return."""
    index_from(device)


def is_bf16_supported(including_emulation: bool = False) -> bool:  # noqa: ARG001 (the vendor's signature)
    """Return whether the SoC computes in bfloat16: from Ascend910B1 on."""
    return STATE.profile.has_bfloat16


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the types autocast may use on this SoC."""
    if is_bf16_supported():
        return [torch.float16, torch.bfloat16, torch.float32]
    return [torch.float16, torch.float32]


def can_device_access_peer(device_id: Any, peer_device_id: Any) -> bool:
    """Return whether one device can read another's memory: every other one can.

    Raises AssertionError for a device that there is not.
    """
    return checked_index(device_id) != checked_index(peer_device_id, "Invalid peer device id")


def utilization(device: Any = None) -> int:
    """Return 0 (percent): nothing runs on the emulated device beside the host. Raises AssertionError as above."""
    checked_index(device)
    return 0


def checked_index(device: Any, complaint: str = "Invalid device id") -> int:
    """Return a logical index as the queries take it. Raises AssertionError for a device that there is not."""
    if isinstance(device, int) and not 0 <= device < num_visible():
        raise AssertionError(complaint)
    return index_from(device)


class device:
    """Context manager that makes a device current within the block; None or a negative index changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else index_from(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = CURRENT.device
        if self.idx >= 0:
            set_device(self.idx)

    def __exit__(self, *_: object) -> None:
        CURRENT.device, CURRENT.last = self.prev_idx, None


class device_of(device):
    """Context manager that makes the device of a tensor or storage current; nothing for one that is not on an npu."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.device.type == "npu" else None)
