"""JM602 wrong-option-kind.

## What it does
Compares the field of `parameter_map[…]` (`.s` bytes, `.i` int, `.b` bool, `.f` float), or the type of an argument, with
the documented one.

## Why it matters
TFAdapter reads the documented field only: a bool in `.i` leaves the option as it was. A text in `.s` raises TypeError.

## Example
```python
custom_op.parameter_map["precision_mode"].i = 1
```

## Use instead
```python
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision")
```

## Fix safety
No edit is made.

## References
The pages that jumar docs tensorflow-options names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tfadapter.checks.subject import Given, is_told, shown, text_of, where
from jumar.tfadapter.options import Option, Setting

RULE = Rule(
    code="JM602",
    name="wrong-option-kind",
    summary="An option is written to the wrong field, or with a value of another type.",
    severity=Severity.ERROR,
    doc=__doc__,
)


FIELDS = {"s": "bytes", "i": "an int", "b": "a bool", "f": "a float", "o": "an object"}


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each setting of another kind."""
    for setting, option in given.known():
        told = _wrong(setting, option)
        if told:
            yield RULE.finding(
                f"{shown(setting)}: {told}",
                where=where(setting),
                evidence={"option": setting.name, "kind": option.kind},
                why="The adapter reads the documented field and type only.",
                action=_action(setting, option),
            )


def _wrong(setting: Setting, option: Option) -> str:
    """Return what is wrong with a setting's field or type; empty where nothing is."""
    if setting.style == "session":
        if setting.kind in option.other_kinds:
            return ""
        if setting.kind != option.kind:
            return f"it must be set by .{option.kind} ({FIELDS[option.kind]}), not .{setting.kind}."
        if is_told(setting.value) and not _fits_field(setting.value, option.kind):
            return f".{option.kind} takes {FIELDS[option.kind]}, not {type(setting.value).__name__}."
        return ""
    if is_told(setting.value) and setting.style not in ("environment", "command") and not _fits(setting.value, option):
        return f"it must be {FIELDS[option.kind].replace('bytes', 'a text')}, not {type(setting.value).__name__}."
    return ""


def _fits_field(value: Any, kind: str) -> bool:
    if kind == "s":
        return isinstance(value, bytes)
    if kind == "b":
        return isinstance(value, (bool, int)) and value in (0, 1)
    return isinstance(value, int if kind == "i" else (int, float))


def _fits(value: Any, option: Option) -> bool:
    """Tell whether an argument has the type of its option. A number may stand for a text, where texts are numbers."""
    if option.kind == "s":
        numbers = option.low is not None or all(one.lstrip("-").isdigit() for one in option.values or ("x",))
        return isinstance(value, str) or (numbers and isinstance(value, int) and not isinstance(value, bool))
    if option.kind == "o":
        return not isinstance(value, (bool, bytes, float))
    if option.kind == "i" and isinstance(value, float) and value.is_integer():
        return True  # 1e9 steps
    return isinstance(value, {"i": int, "b": bool, "f": (int, float)}[option.kind])  # type: ignore[arg-type]


def _action(setting: Setting, option: Option) -> str:
    if setting.style != "session":
        return f"Give {FIELDS[option.kind].replace('bytes', 'a text')}."
    value = text_of(setting.value) if is_told(setting.value) else "…"
    if option.values and value not in option.values:
        value = option.default or option.values[0]
    right = {"s": f'tf.compat.as_bytes("{value}")', "b": "True"}.get(option.kind, value)
    return f'Write custom_op.parameter_map["{setting.name}"].{option.kind} = {right}.'
