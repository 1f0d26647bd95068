"""Which float32 products the devices of this process may compute with fewer bits."""

from __future__ import annotations

from typing import Any

import torch


def reduced_float32_products() -> dict[str, dict[str, bool]]:
    """Return, by device type, whether convolutions and matrix products may round float32 factors.

    TensorFloat-32 on CUDA, HF32 on an NPU (the vendor's default for convolutions). Devices that are not there,
    and an emulated NPU that computes exactly, are left out.
    """
    matmul = torch.get_float32_matmul_precision() != "highest"
    found = {"cpu": {"matmul": matmul, "convolution": False}}
    if torch.cuda.is_available():
        found["cuda"] = {"matmul": matmul, "convolution": _allows(torch.backends.cudnn, "allow_tf32")}
    npu = getattr(torch, "npu", None)
    if npu is not None and not _is_exact():
        found["npu"] = {
            "matmul": _allows(getattr(npu, "matmul", None), "allow_hf32"),
            "convolution": _allows(getattr(npu, "conv", None), "allow_hf32"),
        }
    return {device: switches for device, switches in found.items() if any(switches.values())}


def _allows(switches: Any, name: str) -> bool:
    try:
        return bool(getattr(switches, name, False))
    except RuntimeError:  # PyTorch refuses to answer after its newer switch for the same thing was used
        return True


def _is_exact() -> bool:
    """Return whether `torch.npu` is the emulator with the CPU's numerics."""
    import sys

    state = sys.modules.get("jumar.device.emulator.state")
    return state is not None and state.STATE.settings.numerics == "exact"
