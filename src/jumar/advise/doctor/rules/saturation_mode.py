"""JM809 saturation-mode.

## What it does
Reports INF_NAN_MODE_ENABLE=0 and INF_NAN_MODE_FORCE_DISABLE=1, which ask for the saturation mode.

## Why it matters
In saturation mode an overflow becomes the largest number of the dtype (65504 in float16) and NaN becomes 0.
Loss scaling then sees no overflow, and a diverging run looks healthy. On Atlas A2 and A3 the first
variable alone is refused with an error; with the second it takes effect. On other chips both do nothing.

## Example
```
export INF_NAN_MODE_ENABLE=0
export INF_NAN_MODE_FORCE_DISABLE=1
```

## Use instead
```
unset INF_NAN_MODE_ENABLE INF_NAN_MODE_FORCE_DISABLE
```

## Fix safety
No edit is made: to reproduce results of an Atlas (A1) server the mode can be wanted.

## References
INF_NAN_MODE_ENABLE and INF_NAN_MODE_FORCE_DISABLE, environment variables of github.com/Ascend/pytorch.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM809",
    name="saturation-mode",
    summary="Saturation mode is on: it hides overflow and NaN.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Judge the two variables together."""
    disabled = host.value("INF_NAN_MODE_ENABLE") == "0"
    forced = host.value("INF_NAN_MODE_FORCE_DISABLE") == "1"
    if not disabled and not forced:
        return
    if forced:
        message = "INF_NAN_MODE_FORCE_DISABLE=1: on Atlas A2 and A3 overflow becomes 65504 (float16), NaN becomes 0."
    else:
        message = "INF_NAN_MODE_ENABLE=0 is refused with an error on Atlas A2 and A3 and does nothing elsewhere."
    yield RULE.finding(
        message,
        evidence={"INF_NAN_MODE_ENABLE": disabled, "INF_NAN_MODE_FORCE_DISABLE": forced},
        why="Loss scaling needs to see overflows. When they are hidden, training diverges without a message.",
        action="unset INF_NAN_MODE_ENABLE INF_NAN_MODE_FORCE_DISABLE",
    )
