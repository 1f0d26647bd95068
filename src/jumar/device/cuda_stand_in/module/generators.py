"""`torch.Generator("cuda")`: the emulated accelerator's generator under that name."""

from __future__ import annotations

from typing import Any

import torch

from jumar.device.cuda_stand_in.module.facade import facade
from jumar.device.cuda_stand_in.names import answering_cuda


def install() -> None:
    """Replace `torch.Generator`."""
    made: Any = type(torch.Generator(device="npu"))
    made.device = answering_cuda(made.device.__get__)
    module: Any = torch
    module.Generator = facade("Generator", torch.Generator, instances=torch._C.Generator)
