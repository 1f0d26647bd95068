"""JM603 wrong-option-value.

## What it does
Compares the value with the documented ones, or with the documented range. Of a flag of the command line (`argparse`,
`tf.app.flags`) the default is compared, as a warning. What the source does not tell is left out, and counted in the
headline.

## Why it matters
Some wrong values stop a run after minutes of compiling; others are taken for the default in silence.

## Example
```python
custom_op.parameter_map["dump_debug_mode"].s = tf.compat.as_bytes("aicore")
```

## Use instead
```python
custom_op.parameter_map["dump_debug_mode"].s = tf.compat.as_bytes("aicore_overflow")
```

## Fix safety
No edit is made.

## References
The pages that jumar docs tensorflow-options names.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tfadapter.checks.rules.unknown_option import nearest
from jumar.tfadapter.checks.subject import Given, choices, shown, text_of, where
from jumar.tfadapter.options import Option, Setting

RULE = Rule(
    code="JM603",
    name="wrong-option-value",
    summary="An option has a value that is not allowed.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each value that is not allowed."""
    for setting, option, condition in given.told():
        if setting.kind in (None, option.kind):
            told = _wrong(setting, option)
            if told:
                near = nearest(text_of(setting.value), list(option.values)) or _contained(setting, option)
                yield RULE.finding(
                    f"{shown(setting)}{condition}: {told}",
                    where=where(setting),
                    evidence={"option": setting.name, "value": text_of(setting.value), "near": near},
                    why="The adapter refuses it after compiling, or takes the default in silence.",
                    action=f"Write {near}." if near else f"Choose another value; see {option.source}.",
                    severity=Severity.WARNING if condition else None,
                )


def _wrong(setting: Setting, option: Option) -> str:
    text = text_of(setting.value)
    if option.values:
        same = text in option.values or (text == str(setting.value) and text.lower() in _lower(option))
        return "" if same else f"it must be {choices(option.values)}."
    if option.low is None and option.high is None:
        return ""
    try:
        number = float(text)
    except ValueError:
        return f"it must be a number; got {text!r}."
    low, high = option.low, option.high
    if (low is not None and number < low) or (high is not None and number > high):
        return f"it must be {_range(low, high)}."
    return ""


def _lower(option: Option) -> set[str]:
    """Return the values in any case, where the adapter takes them so: True and False of the environment."""
    return {one.lower() for one in option.values} if "True" in option.values else set()


def _range(low: float | None, high: float | None) -> str:
    if high is None:
        return f"at least {low:,}"
    return f"at most {high:,}" if low is None else f"{low:,} to {high:,}"


def _contained(setting: Setting, option: Option) -> str:
    """Return the one value that begins with what was written, as `aicore` begins aicore_overflow."""
    text = text_of(setting.value).lower()
    found = [one for one in option.values if text and one.lower().startswith(text)]
    return found[0] if len(found) == 1 else ""
