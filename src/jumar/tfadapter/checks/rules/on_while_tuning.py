"""JM607 on-while-tuning.

## What it does
Where AOE tuning is on (`aoe_mode`, AOE_MODE in the environment, in the same file, or in a shell script that starts it):
finds profiling, and static memory (`static_memory_policy` other than 0). Where each is in an `if` of its own, the
finding is for information.

## Why it matters
Both change the times that tuning measures.

## Example
```python
custom_op.parameter_map["aoe_mode"].s = tf.compat.as_bytes("2")
custom_op.parameter_map["static_memory_policy"].i = 1
```

## Use instead
```python
custom_op.parameter_map["aoe_mode"].s = tf.compat.as_bytes("2")
custom_op.parameter_map["static_memory_policy"].i = 0
```

## Fix safety
No edit is made.

## References
Document on subgraph and operator tuning, before you start.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tfadapter.checks.subject import Given, is_told, shown, text_of, where

RULE = Rule(
    code="JM607",
    name="on-while-tuning",
    summary="Something is on that must be off while a model is tuned.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each setting that disturbs tuning. Nothing where tuning is off."""
    for setting, option in given.known():
        off = option.off_while_tuning
        tuning = given.tuning_with(setting) if off and is_told(setting.value) else ""
        if tuning and text_of(setting.value) != off:
            yield RULE.finding(
                f"{shown(setting)} while tuning is on{'' if tuning == 'on' else ', if both conditions hold'}.",
                where=where(setting),
                evidence={"option": setting.name, "value": text_of(setting.value), "needed": off},
                why="It changes the times that tuning measures.",
                action=f"Set {setting.name} to {off} while you tune.",
                severity=None if tuning == "on" else Severity.INFO,
            )
