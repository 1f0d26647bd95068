"""The setting `single_device`: one device for each thread, as in the first releases of torch_npu.

The migration guide's list of failures names three ways into it: another device in `set_device`, a tensor on a
device other than the current one, and `set_device` after a backward pass, which takes device 0 by itself.
"""

from __future__ import annotations

from typing import Any

import torch

from jumar.base.errors import DeviceError
from jumar.npu.core.state import CURRENT, STATE

_NO_THREAD = "device_ready_queues_"
"""Part of the engine's own assertion about a device it has no thread for."""


def bind(index: int) -> None:
    """Hold the calling thread to the first device it uses, where the settings say so.

    Raises RuntimeError, under the name the first releases gave it, when the thread turns to another.
    """
    if not STATE.settings.single_device:
        return
    if CURRENT.bound is None or CURRENT.bound[0] is not STATE.settings:
        CURRENT.bound = STATE.settings, index
    elif CURRENT.bound[1] != index:
        raise RuntimeError(
            f"ExchangeDevice: a thread can use one NPU only; this one has used npu:{CURRENT.bound[1]} and turns to "
            f"npu:{index}. Call torch.npu.set_device with one and the same device, before anything else uses an NPU "
            "and before the first backward pass."
        )


def install() -> None:
    """Have a backward pass take the current device, also where none of its tensors is on an NPU."""
    module: Any = torch.autograd
    run = module._engine_run_backward

    def engine(*args: Any, **kwargs: Any) -> Any:
        bind(CURRENT.device)
        try:
            return run(*args, **kwargs)
        except RuntimeError as error:
            if _NO_THREAD not in str(error):
                raise
            raise DeviceError(
                "a backward pass on the NPU needs a thread that PyTorch starts with the first backward pass of a "
                "process; that one came before the NPU was there. Bring the NPU up at the start of the program."
            ) from error

    module._engine_run_backward = engine
