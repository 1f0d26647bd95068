"""JM610 option-set-twice.

## What it does
Finds options that one session or one process sets to two different values, one after the other, and a tuning mode
that the environment (`AOE_MODE`) gives otherwise than the script (`aoe_mode`).

## Why it matters
The last one holds; the reader sees the first. Of AOE_MODE and aoe_mode no document says which one holds.

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
from jumar.tfadapter.checks.subject import TUNING, Given, is_told, shown, text_of, where
from jumar.tfadapter.options import Setting

RULE = Rule(
    code="JM610",
    name="option-set-twice",
    summary="An option is set twice, with two values.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each option whose value changes outside of a branch, and for each second tuning mode."""
    yield from _changed(given)
    yield from _other_modes(given)


def _changed(given: Given) -> Iterator[Finding]:
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


def _other_modes(given: Given) -> Iterator[Finding]:
    modes = [one for one in given.settings if one.name in TUNING and is_told(one.value) and text_of(one.value)]
    outside = [one for one in modes if one.style == "environment"]
    process = given.environment.get("AOE_MODE", "")
    for setting in (one for one in modes if one.style != "environment"):
        there = [shown(one) for one in outside if _differ(one, setting) and given.are_of_one_run(one, setting)]
        if process not in ("", text_of(setting.value)):
            there.append(f"AOE_MODE={process}")
        if there:
            yield RULE.finding(
                f"{setting.name} is {text_of(setting.value)} here, and the environment of the run has {there[0]}.",
                where=where(setting),
                evidence={"option": setting.name, "set": [*there, shown(setting)]},
                why="No document says which one holds.",
                action="Give both the same mode, or leave one of them out.",
            )


def _differ(outside: Setting, setting: Setting) -> bool:
    return text_of(outside.value) != text_of(setting.value) and not outside.excludes(setting)


def _is_of_a_shell(setting: Setting) -> bool:
    """Tell whether a shell script sets a variable: between two values it starts programs."""
    return setting.style == "environment" and setting.path is not None and setting.path.suffix != ".py"
