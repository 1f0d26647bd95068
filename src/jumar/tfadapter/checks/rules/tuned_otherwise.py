"""JM606 tuned-otherwise.

## What it does
With two files (`jumar doctor options TUNING TRAINING`): compares the options that change shapes, dtypes or the graph.
Each is a script, a folder, a shell script or text that runs `aoe`, `atc` or `jumar tune`, or such a command itself. An
option that only one of them sets is a warning. Order, case, other words for one value, and a default written out are no
difference; what the source does not tell is not compared.

## Why it matters
What tuning wrote into the knowledge bank is found under the network's shapes, dtypes and structure. Where these differ,
the bank is not hit, and tuning was for nothing.

## Example
```python
# tuning
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("force_fp16")
# training
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision")
```

## Use instead
```python
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision")  # in both
```

## Fix safety
No edit is made.

## References
Document on AOE's typical cases, case 02.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tfadapter.checks.agreement import Apart, apart
from jumar.tfadapter.checks.subject import Given, text_of, where
from jumar.tfadapter.options import Setting

RULE = Rule(
    code="JM606",
    name="tuned-otherwise",
    summary="Tuning and training set options apart that must be the same.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each option that differs. Nothing without a training's settings."""
    for one in apart(given):
        yield _finding(one)


def _finding(one: Apart) -> Finding:
    place = (*one.training, *one.tuning)[0]
    tuning, training = shown_values(one.tuning), shown_values(one.training)
    unread = "" if one.is_certain else " (two files that cannot be compared here)"
    return RULE.finding(
        f"{one.name} is {tuning} in tuning and {training} in training{unread}.",
        where=where(place),
        evidence={"option": one.name, "tuning": tuning, "training": training, "changes": one.changes},
        why=f"It changes the {one.changes or 'network'}, and the knowledge bank is looked up by that: no hit.",
        action=f"Set {one.name} to one value in both, and tune again.",
        severity=None if one.is_certain and not one.is_one_sided else Severity.WARNING,
        confidence="certain" if one.is_certain else "possible",
    )


def shown_values(settings: Sequence[Setting]) -> str:
    """Return the values of one side: `a or b`, or `not set`."""
    return " or ".join(sorted({text_of(setting.value) for setting in settings})) or "not set"
