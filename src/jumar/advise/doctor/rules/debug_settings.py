"""JM808 debug-setting-left-on.

## What it does
Reports variables that serve debugging, cost time, and are set: synchronous launches, verbose logs, logs on
the screen, graph dumps, no launch queue, no memory cache, no kernel cache.

## Why it matters
They are set to find one error and stay in the shell profile. ASCEND_LAUNCH_BLOCKING=1 waits after every
operator and switches the launch queue off; debug logs write to disk for each of them.

## Example
```
export ASCEND_LAUNCH_BLOCKING=1
export ASCEND_GLOBAL_LOG_LEVEL=0
```

## Use instead
```
unset ASCEND_LAUNCH_BLOCKING
export ASCEND_GLOBAL_LOG_LEVEL=3
```

## Fix safety
No edit is made: while an error is looked for, these are right.

## References
The vendor's PyTorch migration guide, "common environment variables"; pages of github.com/Ascend/pytorch
(ASCEND_LAUNCH_BLOCKING, TASK_QUEUE_ENABLE, PYTORCH_NO_NPU_MEMORY_CACHING, ACL_OP_COMPILER_CACHE_MODE); the
vendor's advisor reports the log level and launch blocking too.
"""

from __future__ import annotations

from collections.abc import Mapping

from jumar.advise.checks import Outcomes
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM808",
    name="debug-setting-left-on",
    summary="A setting for debugging that slows training is on.",
    severity=Severity.WARNING,
    doc=__doc__,
)

SETTINGS: Mapping[str, Mapping[str, str]] = {
    "ASCEND_LAUNCH_BLOCKING": {"1": "every operator is waited for, and the launch queue is off"},
    "ASCEND_GLOBAL_LOG_LEVEL": {
        "0": "debug logs are written for every operator",
        "1": "info logs are written for every operator",
    },
    "ASCEND_SLOG_PRINT_TO_STDOUT": {"1": "the vendor's logs go to the screen instead of the plog files"},
    "ASCEND_GLOBAL_EVENT_ENABLE": {"1": "event logs are written"},
    "TASK_QUEUE_ENABLE": {"0": "operators are launched without the queue that hides the launch time"},
    "PYTORCH_NO_NPU_MEMORY_CACHING": {"1": "every tensor is allocated and freed by the driver"},
    "ACL_OP_COMPILER_CACHE_MODE": {
        "disable": "kernels are compiled anew in every run",
        "force": "the kernel cache is thrown away at every start",
    },
    "DUMP_GE_GRAPH": {"1": "graphs are dumped", "2": "graphs are dumped", "3": "graphs are dumped"},
    "ACL_DUMP_DATA": {"1": "operators' data is dumped"},
}
"""Variable to its values that cost time, with what they do."""


def find(host: Host) -> Outcomes:
    """Report each setting that costs time."""
    found = [(name, value) for name in SETTINGS if (value := host.value(name)) in SETTINGS[name]]
    return [
        RULE.finding(
            f"{name}={value}: {SETTINGS[name][value]}.",
            evidence={"variable": name, "value": value},
            why="Good for finding an error, slow for training.",
            action=f"unset {name}" if name != "ASCEND_GLOBAL_LOG_LEVEL" else "export ASCEND_GLOBAL_LOG_LEVEL=3",
        )
        for name, value in found
        if value is not None
    ]
