"""JM802 torch-npu-unusable.

## What it does
Finds the vendor's torch_npu, imports it in a fresh interpreter and asks it for its devices.

## Why it matters
Where torch_npu is installed and does not import, or sees no device, every command falls back to the
emulated NPU: it works, but it is not your NPU, and its times are a CPU's.

## Example
```
$ python -c "import torch_npu"
ImportError: libhccl.so: cannot open shared object file: No such file or directory
```

## Use instead
```
$ source /usr/local/Ascend/ascend-toolkit/set_env.sh
$ python -c "import torch, torch_npu; print(torch.npu.device_count())"
```

## Fix safety
No edit is made.

## References
Installation FAQ of github.com/Ascend/pytorch (libhccl.so; a crash after building with another GCC).
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM802",
    name="torch-npu-unusable",
    summary="There is an NPU or its software, and torch_npu is missing, does not import, or sees no device.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Judge torch_npu; a machine without anything of an NPU needs none."""
    package = host.python.torch_npu
    if package.error is not None:
        return [
            RULE.finding(
                f"torch_npu {package.version or 'is installed and'} does not import: {package.error}.",
                evidence={"error": package.error, "version": package.version},
                why="Jumar would use the emulated NPU in its place.",
                action=_remedy(package.error),
            )
        ]
    if not package.installed:
        return [_missing(host)] if host.npu.device_nodes else []
    if host.python.num_npus == 0:
        return [
            RULE.finding(
                "torch_npu imports, and `torch.npu.device_count()` is 0.",
                evidence={"num_npus": 0, "device_nodes": len(host.npu.device_nodes)},
                why="`torch.npu.is_available()` is False, so scripts fall back to the CPU without a word.",
                action="Check `npu-smi info`, the device files of the container and ASCEND_RT_VISIBLE_DEVICES.",
            )
        ]
    return []


def _missing(host: Host) -> Finding:
    return RULE.finding(
        f"This machine has {len(host.npu.device_nodes)} NPU device files, and torch_npu is not installed.",
        severity=Severity.WARNING,
        evidence={"device_nodes": list(host.npu.device_nodes)},
        why="Jumar would use the emulated NPU although a real one is here.",
        action=f"Install the torch_npu of your torch: pip install torch-npu=={host.python.torch.version.split('+')[0]}",
    )


def _remedy(error: str) -> str:
    if ".so" in error:
        return "Source CANN's set_env.sh in this shell and check that driver, firmware and CANN are installed."
    if "torch_npu._C" in error:
        return "Leave the folder that holds a `torch_npu` source tree: it hides the installed package."
    if "killed" in error:
        return "Install the torch_npu wheel that matches this torch and Python: one built otherwise crashes."
    return "Install the torch_npu that matches this torch, Python and CANN."
