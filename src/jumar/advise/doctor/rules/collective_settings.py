"""JM811 collective-setting.

## What it does
Reads the variables of HCCL, the NPU's collective library: timeouts that are no numbers or stand in the wrong
order, and hand-set algorithms and RDMA classes.

## Why it matters
HCCL_EVENT_TIMEOUT must be greater than HCCL_EXEC_TIMEOUT, or the event gives up first and hides the
collective's own message. HCCL_ALGO, HCCL_RDMA_TC and HCCL_RDMA_SL replace what HCCL would choose; left over
from another cluster they slow every all-reduce.

## Example
```
export HCCL_EXEC_TIMEOUT=3600        # HCCL_EVENT_TIMEOUT is 1868 by default
```

## Use instead
```
export HCCL_EXEC_TIMEOUT=3600 HCCL_EVENT_TIMEOUT=3668
```

## Fix safety
No edit is made.

## References
HCCL_EVENT_TIMEOUT, environment variables of github.com/Ascend/pytorch (default 1868 s, must exceed
HCCL_EXEC_TIMEOUT); the vendor's advisor reports the other three when they are set.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM811",
    name="collective-setting",
    summary="A variable of HCCL contradicts another, is no number, or overrides HCCL's choice.",
    severity=Severity.WARNING,
    doc=__doc__,
)

TIMEOUTS_S = {"HCCL_CONNECT_TIMEOUT": 120, "HCCL_EXEC_TIMEOUT": 1800, "HCCL_EVENT_TIMEOUT": 1868}
"""Variable to its default in seconds."""
OVERRIDES = ("HCCL_ALGO", "HCCL_RDMA_TC", "HCCL_RDMA_SL")


def find(host: Host) -> Outcomes:
    """Judge timeouts and overrides."""
    findings = [_not_a_number(host, name) for name in TIMEOUTS_S if _seconds(host, name) is None]
    findings += _order(host)
    findings += [
        RULE.finding(
            f"{name}={host.value(name)} replaces what HCCL would choose.",
            severity=Severity.INFO,
            evidence={"variable": name, "value": host.value(name)},
            action="Keep it if it was measured on this cluster; else unset it.",
        )
        for name in OVERRIDES
        if host.value(name)
    ]
    return findings


def _seconds(host: Host, name: str) -> int | None:
    """Return a timeout in seconds (the default where it is unset), or None when it is no whole number."""
    text = host.value(name)
    if text is None:
        return TIMEOUTS_S[name]
    return int(text) if text.isascii() and text.isdigit() else None


def _not_a_number(host: Host, name: str) -> Finding:
    return RULE.finding(
        f"{name} must be whole seconds; got {host.environ[name]!r}.",
        evidence={"variable": name, "value": host.environ[name]},
        action=f"export {name}={TIMEOUTS_S[name]}",
    )


def _order(host: Host) -> list[Finding]:
    execution, event = _seconds(host, "HCCL_EXEC_TIMEOUT"), _seconds(host, "HCCL_EVENT_TIMEOUT")
    if execution is None or event is None or event == 0 or event > execution:
        return []
    return [
        RULE.finding(
            f"HCCL_EVENT_TIMEOUT ({event} s) must be greater than HCCL_EXEC_TIMEOUT ({execution} s).",
            evidence={"event_timeout_s": event, "exec_timeout_s": execution},
            why="The event ends first. The collective's own message, which names the rank, is then lost.",
            action=f"export HCCL_EVENT_TIMEOUT={execution + 68}",
        )
    ]
