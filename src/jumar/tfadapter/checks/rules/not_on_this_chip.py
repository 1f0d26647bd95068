"""JM605 option-not-on-chip.

## What it does
With `--soc`: compares values with what that family of chips takes. On the A2 series overflow detection has the mode
`all` only, and AOE tunes no subgraphs.

## Why it matters
The run stops, or nothing is detected.

## Example
```python
DumpConfig(enable_dump_debug=True, dump_path="/data/dump", dump_debug_mode="aicore_overflow")  # on an A2
```

## Use instead
```python
DumpConfig(enable_dump_debug=True, dump_path="/data/dump", dump_debug_mode="all")
```

## Fix safety
No edit is made.

## References
Documents on overflow collection and AOE tuning.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tfadapter.checks.subject import Given, choices, family_of, is_told, shown, text_of, where

RULE = Rule(
    code="JM605",
    name="option-not-on-chip",
    summary="A value is not there on the chip.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each value that the chip does not take. Nothing without a chip."""
    if not given.soc:
        return
    family = family_of(given.soc)
    for setting, option in given.known():
        allowed = dict(option.values_by_chip).get(family, ())
        text = text_of(setting.value)
        if allowed and is_told(setting.value) and text in option.values and text not in allowed:
            yield RULE.finding(
                f"{shown(setting)}: {given.soc} takes {choices(allowed)} only.",
                where=where(setting),
                evidence={"option": setting.name, "value": text, "soc": given.soc, "allowed": list(allowed)},
                why="The other values are for other chips.",
                action=f"Write {allowed[0]}.",
            )
