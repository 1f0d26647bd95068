"""Triton's driver on the stand-in for CUDA: kernels run through the interpreter, and the chip looks like an A100."""

from __future__ import annotations

from typing import NoReturn

from jumar.base.lazy import after_import
from jumar.device.cuda_stand_in.module.cuda_module import CAPABILITY
from jumar.device.cuda_stand_in.refused import refuse
from jumar.npu.ops.triton.driver import EmulatedDriver, activate
from jumar.npu.ops.triton.launch import Refusal

_INSTEAD = "give the script's pure PyTorch path for this run"

_A100 = {
    "max_shared_mem": 166912,
    "max_num_regs": 65536,
    "multiprocessor_count": 108,
    "warpSize": 32,
    "sm_clock_rate": 1410000,
    "mem_clock_rate": 1215000,
    "mem_bus_width": 5120,
}
"""Facts of an A100 by the names of Triton's driver for NVIDIA (clocks in kHz; CUDA's tables of capability 8.0)."""


def _refuse_kernel(kernel: str) -> NoReturn:
    refuse(f"the Triton kernel {kernel!r}", _INSTEAD)


def install() -> None:
    """Give Triton the driver of a CUDA device when it is imported."""
    Refusal.refuse = staticmethod(_refuse_kernel)
    major, minor = CAPABILITY
    driver = EmulatedDriver("cuda", 10 * major + minor, 32, lambda: dict(_A100))
    after_import({"triton.runtime.driver": lambda module: activate(module, driver)})
