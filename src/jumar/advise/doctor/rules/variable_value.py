"""JM840 variable-value.

## What it does
Compares the value of each known environment variable of CANN, HCCL, torch_npu, MindSpore and tuning with the values
that it takes, and names the variables that today's software no longer reads. Variables that another rule judges are
left to that rule.

## Why it matters
The vendor's software takes the default for a value that it cannot read, or ends with a message far from the cause. A
variable that is no longer read does nothing, and says nothing.

## Example
```
export HCCL_CONNECT_TIMEOUT=60        # 120 to 7200
export PTCOPY_ENABLE=1                # of torch_npu for PyTorch 1.5
```

## Use instead
```
export HCCL_CONNECT_TIMEOUT=120
unset PTCOPY_ENABLE
```

## Fix safety
No edit is made.

## References
`jumar docs variables` names the source of each variable.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes
from jumar.advise.doctor.machine.host import Host
from jumar.advise.doctor.rules.collective_settings import TIMEOUTS_S
from jumar.advise.doctor.variables import SetVariable, set_variables
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM840",
    name="variable-value",
    summary="An environment variable has a value that it does not take, or is no longer read.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Report each variable whose value is wrong, or that nothing reads."""
    return [_finding(one) for one in set_variables(host.environ) if one.complaint and not _is_of_collectives(one)]


def _is_of_collectives(one: SetVariable) -> bool:
    """Tell whether JM811 reports it: a timeout that is no whole number."""
    return one.variable.name in TIMEOUTS_S and not one.value.strip().isdigit()


def _finding(one: SetVariable) -> Finding:
    variable = one.variable
    if variable.until:
        message = f"{variable.name} is set; it is {one.complaint}."
        action = f"unset {variable.name}" + (f"; set {variable.instead}" if variable.instead else "")
    else:
        message = f"{variable.name} {one.complaint}; got {one.value!r}."
        default = f" The default is {variable.default}." if variable.default else ""
        action = f"Set {variable.name} to a value that it takes, or unset it.{default}"
    return RULE.finding(
        message,
        severity=Severity.ADVICE if variable.until else RULE.severity,
        evidence={"variable": variable.name, "value": one.value, "source": variable.source},
        why=variable.meaning,
        action=action,
    )
