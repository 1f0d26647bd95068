"""JM605 option-not-on-chip.

## What it does
With `--soc`: compares values with what that family of chips takes. On the A2 series overflow detection has the mode
`all` only, and AOE tunes no subgraphs. Chips of the first generation have no bfloat16.

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
Documents on overflow collection and AOE tuning; the chips' profiles (`jumar.soc.profiles`) for bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.soc.profiles import SOCS
from jumar.tfadapter.checks.subject import Given, choices, family_of, shown, text_of, where
from jumar.tfadapter.options import Option

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
    for setting, option, condition in given.told():
        text = text_of(setting.value)
        allowed = _allowed(option, family, given.soc)
        if allowed and text in option.values and text not in allowed:
            yield RULE.finding(
                f"{shown(setting)}{condition}: {given.soc} takes {choices(allowed)} only.",
                where=where(setting),
                evidence={"option": setting.name, "value": text, "soc": given.soc, "allowed": list(allowed)},
                why="The other values are for other chips.",
                action=f"Write {allowed[0]}.",
                severity=Severity.WARNING if condition else None,
            )


def _allowed(option: Option, family: str, soc: str) -> Sequence[str]:
    """Return what a chip takes; empty where nothing is known against any value."""
    listed = dict(option.values_by_chip).get(family, ())
    profile = SOCS.get(soc)
    if listed or profile is None or profile.has_bfloat16 or not any(_is_bfloat16(one) for one in option.values):
        return listed
    return [one for one in option.values if not _is_bfloat16(one)]


def _is_bfloat16(value: str) -> bool:
    return "bf16" in value or "bfloat16" in value
