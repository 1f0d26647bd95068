"""CPU kernels standing in for CUDA, so that a CUDA script runs unchanged as a reference run.

The stand-in is the emulated accelerator under another name. Tensors "on cuda" are tensors of the emulated
device, so placement errors, streams, random numbers and autocast are those of an accelerator, and every
operator is computed by PyTorch's CPU kernel. A script sees `cuda` wherever it looks: `x.device`, `x.is_cuda`,
`torch.cuda.*`, `torch.autocast("cuda")` with CUDA's cast lists, checkpoints tagged `cuda:0`.

Limits, all of them visible to the script only:

- The device answers with an A100's capability (8, 0), and with a name that says it is a stand-in.
- Times measured with events are times of CPU kernels.
- `torch.compile` gives the function back as it is.
- Triton kernels run through Triton's interpreter, and its autotuner takes the first configuration.
- CUDA graphs, custom CUDA extensions, the CUDA runtime and allocator plug-ins raise NotImplementedError, which
  says what to do.
- Devices in error messages print as `npu`.
"""

from __future__ import annotations

__all__ = ["install", "is_installed"]

_installed: list[bool] = []


def is_installed() -> bool:
    """Return whether this process has the stand-in."""
    return bool(_installed)


def install() -> None:
    """Redirect CUDA to the emulated accelerator, which must be up, for the rest of this process.

    A second call does nothing. Raises DeviceError where CUDA itself is available, or the emulator is not up.
    """
    if _installed:
        return
    import torch

    from jumar.base.errors import DeviceError

    if torch.cuda.is_available():
        raise DeviceError(
            "the CUDA stand-in is for machines without CUDA, and this one has "
            f"{torch.cuda.get_device_name()}. Use the device kind cuda."
        )
    if not hasattr(torch, "npu"):
        raise DeviceError(
            "the CUDA stand-in needs the emulated accelerator, which is not up. "
            'Use jumar.device.activate(DevicePlan(kind="cuda-stand-in")).'
        )
    _install()
    _installed.append(True)


def _install() -> None:
    from jumar.device.cuda_stand_in import logical, redirect, tensors
    from jumar.device.cuda_stand_in.libraries import (
        apex_,
        autocast,
        compile_,
        data_parallel,
        distributed,
        extensions,
        serialization,
        triton_,
    )
    from jumar.device.cuda_stand_in.module import accelerator, cuda_module, generators

    cuda_module.install()
    tensors.install()
    logical.install()
    accelerator.install()
    autocast.install()
    generators.install()
    serialization.install()
    distributed.install()
    data_parallel.install()
    compile_.install()
    extensions.install()
    triton_.install()
    redirect.install()
    apex_.install()
