"""JM610 option-set-twice.

## What it does
Finds options that one session or one process sets to two different values, one after the other.

## Why it matters
The last one holds; the reader sees the first.

## Example
```python
custom_op.parameter_map["aoe_mode"].s = tf.compat.as_bytes("1")
# … 200 lines …
custom_op.parameter_map["aoe_mode"].s = tf.compat.as_bytes("2")
```

## Use instead
```python
custom_op.parameter_map["aoe_mode"].s = tf.compat.as_bytes("2")
```

## Fix safety
No edit is made.

## References
TensorFlow's ConfigProto: a map has one value for a name.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tfadapter.checks.subject import Given, is_told, shown, text_of, where
from jumar.tfadapter.options import Setting

RULE = Rule(
    code="JM610",
    name="option-set-twice",
    summary="An option is set twice, with two values.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each option whose value changes outside of a branch."""
    before: dict[tuple[str, str], Setting] = {}
    for setting in given.settings:
        if not is_told(setting.value) or _is_of_a_shell(setting):
            continue
        first = before.setdefault((setting.group, setting.name), setting)
        if first is not setting and first.branch == setting.branch and text_of(first.value) != text_of(setting.value):
            yield RULE.finding(
                f"{setting.name} is set to {text_of(first.value)} in line {first.line} and to {text_of(setting.value)} "
                "here.",
                where=where(setting),
                evidence={"option": setting.name, "set": [shown(first), shown(setting)]},
                why="The last one holds.",
                action="Leave one of them out.",
            )
            before[setting.group, setting.name] = setting


def _is_of_a_shell(setting: Setting) -> bool:
    """Tell whether a shell script sets a variable: between two values it starts programs."""
    return setting.style == "environment" and setting.path is not None and setting.path.suffix != ".py"
