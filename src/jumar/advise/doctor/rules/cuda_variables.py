"""JM807 cuda-variable-left.

## What it does
Reports variables that only CUDA reads and that have a counterpart for the NPU which is not set:
CUDA_VISIBLE_DEVICES, PYTORCH_CUDA_ALLOC_CONF, CUDA_LAUNCH_BLOCKING, NCCL_*.

## Why it matters
Nothing fails: the NPU's software does not look at them. The job takes all devices instead of the chosen
ones, the allocator has its defaults, the network interface is another one.

## Example
```
CUDA_VISIBLE_DEVICES=2,3 python train.py
```

## Use instead
```
ASCEND_RT_VISIBLE_DEVICES=2,3 python train.py
```

## Fix safety
No edit is made: a script may serve both devices.

## References
Environment variable list of github.com/Ascend/pytorch; HCCL_SOCKET_IFNAME and HCCL_CONNECT_TIMEOUT of HCCL.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM807",
    name="cuda-variable-left",
    summary="A variable that only CUDA reads is set, and its counterpart for the NPU is not.",
    severity=Severity.WARNING,
    doc=__doc__,
)

COUNTERPARTS = {
    "CUDA_VISIBLE_DEVICES": "ASCEND_RT_VISIBLE_DEVICES",
    "PYTORCH_CUDA_ALLOC_CONF": "PYTORCH_NPU_ALLOC_CONF",
    "CUDA_LAUNCH_BLOCKING": "ASCEND_LAUNCH_BLOCKING",
    "NCCL_SOCKET_IFNAME": "HCCL_SOCKET_IFNAME",
    "NCCL_BUFFSIZE": "HCCL_BUFFSIZE",
    "NCCL_ALGO": "HCCL_ALGO",
    "NCCL_IB_TC": "HCCL_RDMA_TC",
    "NCCL_IB_SL": "HCCL_RDMA_SL",
    "TORCH_NCCL_BLOCKING_WAIT": "TORCH_HCCL_BLOCKING_WAIT",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "TORCH_HCCL_ASYNC_ERROR_HANDLING",
}
"""Variable of CUDA or NCCL to the one that Ascend reads; values are not always written alike."""


def find(host: Host) -> Outcomes:
    """Report each variable of CUDA whose counterpart is missing."""
    left = {
        name: counterpart
        for name, counterpart in COUNTERPARTS.items()
        if name in host.environ and counterpart not in host.environ
    }
    severity = RULE.severity if host.has_npu_software else Severity.ADVICE
    return [
        RULE.finding(
            f"{name}={host.environ[name]!r} is set; an NPU reads {counterpart}, which is not set.",
            severity=severity,
            evidence={"variable": name, "value": host.environ[name], "counterpart": counterpart},
            why="The NPU's software ignores variables of CUDA without a message.",
            action=f"For a run on the NPU set {counterpart} too.",
        )
        for name, counterpart in left.items()
    ]
