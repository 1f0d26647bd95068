"""The description of a run: device, versions, settings. A comparison checks it first."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import random
import sys
from collections.abc import Collection
from datetime import datetime, timezone
from typing import Any

import torch

import jumar
from jumar.base.host import cores
from jumar.capture.plans.plan import RecordPlan
from jumar.device import ActiveDevice
from jumar.recording import RunInfo

_LIBRARIES = ("numpy", "torchvision", "torchaudio", "transformers", "accelerate", "lightning", "apex", "timm")


def run_info(plan: RecordPlan, device: ActiveDevice | None) -> RunInfo:
    """Return the description of this run as far as it is known now."""
    return RunInfo(
        jumar_version=jumar.__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=plan.command,
        device=device.description if device is not None else default_device(),
        soc=device.soc if device is not None else "",
        torch_version=str(torch.__version__),
        torch_npu_version=device.torch_npu_version if device is not None else "",
        levels=plan.levels,
        values=plan.values,
        steps=plan.steps,
        num_ranks=int(os.environ.get("WORLD_SIZE") or 1),
        settings=settings() | ({"vary": plan.vary} if plan.vary else {}),
        environment=environment(),
    )


def device_met(types: Collection[str]) -> dict[str, str]:
    """Return the fields `device` and `soc` of a run for which Jumar started no device, by the types of devices of its
    tensors; empty when no tensor is on an NPU, real or emulated."""
    if "npu" not in types:
        return {}
    from jumar.npu.core.state import STATE

    if STATE.active:
        return {"device": "npu (emulated)", "soc": STATE.soc}
    npu = getattr(torch, "npu", None)
    return {"device": "npu", "soc": str(npu.get_device_name()) if npu is not None else ""}


def default_device() -> str:
    """Return the device a script finds without Jumar's help."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def settings() -> dict[str, Any]:
    """Return the switches that change numbers, and the state of the random generators."""
    return {
        "num_threads": torch.get_num_threads(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "reduced_float32_products": reduced_float32_products(),
        "mkldnn": torch._C._get_mkldnn_enabled(),
        "torch_seed": torch.initial_seed(),
        "random_states": random_states(),
    }


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
    state = sys.modules.get("jumar.npu.core.state")
    return state is not None and state.STATE.settings.numerics == "exact"


def random_states() -> dict[str, str]:
    """Return a short hash of the state of each generator a script may draw from, without drawing."""
    states = {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "python": repr(random.getstate()).encode(),
    }
    if "numpy" in sys.modules:
        import numpy as np

        states["numpy"] = repr(np.random.get_state()).encode()
    return {name: hashlib.sha256(state).hexdigest()[:16] for name, state in states.items()}


def environment() -> dict[str, Any]:
    """Return Python, platform and the versions of the libraries that matter."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "machine": platform.machine(),
        "num_cores": cores().num_cores,
        "libraries": {name: version for name in _LIBRARIES if (version := _version(name))},
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
