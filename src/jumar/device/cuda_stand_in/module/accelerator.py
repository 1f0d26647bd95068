"""`torch.accelerator`: the accelerator of this process is called cuda."""

from __future__ import annotations

import types
from typing import Any

import torch

from jumar.device.cuda_stand_in.names import redirected
from jumar.device.cuda_stand_in.refused import Refused


def install() -> None:
    """Let the functions of `torch.accelerator` take and give CUDA devices."""
    module: Any = torch.accelerator
    for name in module.__all__:
        found = getattr(module, name)
        if isinstance(found, types.FunctionType):
            setattr(module, name, redirected(found))
    # FSDP and process groups ask below `torch.accelerator`.
    core: Any = torch._C
    core._get_accelerator = redirected(core._get_accelerator)
    if hasattr(module, "Graph"):
        module.Graph = Refused("torch.accelerator.Graph", "run the captured code directly")
