"""JM805 npu-driver-missing.

## What it does
Looks for the NPU's device files (`/dev/davinci0`, …), whether this user may open them, and for the
driver's tool `npu-smi`.

## Why it matters
CANN and torch_npu install anywhere; without the driver, or in a container that was started without the
device files, they see no NPU.

## Example
```
docker run image python train.py
```

## Use instead
```
docker run --device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc \
  -v /usr/local/dcmi:/usr/local/dcmi -v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi \
  -v /usr/local/Ascend/driver:/usr/local/Ascend/driver image python train.py
```

## Fix safety
No edit is made.

## References
The vendor's PyTorch migration guide, "RuntimeError: Initialize"; code 507033 "failed to start the device".
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM805",
    name="npu-driver-missing",
    summary="NPU software is installed, and the driver or the device files are not there for this user.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Judge device files, permissions and the driver's tool."""
    npu = host.npu
    if not host.has_npu_software:
        yield not_checked(RULE, "no software or device of an NPU is here; the emulated NPU needs no driver.")
        return
    if not npu.device_nodes:
        yield RULE.finding(
            "There is no NPU device file (/dev/davinci0) here.",
            evidence={"npu_smi": npu.npu_smi},
            why="There is no NPU in this machine, its driver is not loaded, or the container does not pass it on.",
            action="On the host run `npu-smi info`; start the container with --device /dev/davinci0 and the rest.",
        )
        return
    if npu.unreadable_nodes:
        yield RULE.finding(
            f"This user may not open {', '.join(npu.unreadable_nodes)}.",
            evidence={"unreadable": list(npu.unreadable_nodes)},
            action="Add the user to the driver's group (HwHiAiUser), or start the container with those devices.",
        )
        return
    if npu.npu_smi is None:
        yield RULE.finding(
            "npu-smi, the driver's tool, is not on the PATH.",
            severity=Severity.ADVICE,
            why="Temperature, memory in use and left-over processes cannot be looked at.",
            action="Add /usr/local/sbin to the PATH, or mount npu-smi into the container.",
        )
        return
    return
