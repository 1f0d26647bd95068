"""JM601 unknown-option.

## What it does
Looks up each option in the table of documented ones (jumar docs tensorflow-options), in the style in which it is set. A
name that is a slip of a known one is an error; another one, or one that the table has elsewhere, is a warning, because
your version may have it.

## Why it matters
TensorFlow puts any name into `parameter_map` and says nothing. The option then does nothing.

## Example
```python
custom_op.parameter_map["enable_dump_debgu"].b = True
```

## Use instead
```python
custom_op.parameter_map["enable_dump_debug"].b = True
```

## Fix safety
No edit is made.

## References
Documents on overflow collection, AOE tuning and memory options; the pages that the table names.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tfadapter.checks.subject import Given, shown, where
from jumar.tfadapter.options import Setting, options_of

RULE = Rule(
    code="JM601",
    name="unknown-option",
    summary="An option is set under a name that TFAdapter's documentation does not have.",
    severity=Severity.ERROR,
    doc=__doc__,
)


OBJECTS = {"estimator": "NPURunConfig", "dump_config": "DumpConfig", "profiling_config": "ProfilingConfig",
           "memory_config": "MemoryConfig", "npu_device": "npu_device.global_options()", "session": "parameter_map",
           "environment": "the environment", "aoe": "the file of operators", "command": "aoe"}  # fmt: skip
"""Style -> what a person calls the place of its options."""
WHY = {
    "session": "TensorFlow takes any name and says nothing; the option has no effect.",
    **dict.fromkeys(("estimator", "dump_config", "profiling_config", "memory_config"), "The class does not take it."),
    **dict.fromkeys(("npu_device", "environment", "aoe", "command"), "The option has no effect."),
}
_CLOSE = 0.75
_MOST_EDITS = 2
"""Letters that are left out, added, changed or swapped in a slip. Case and underscores do not count."""


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each name that is not in the table."""
    for setting in given.settings:
        if setting.name not in options_of(setting.style):
            yield _finding(setting)


def _finding(setting: Setting) -> Finding:
    known = list(options_of(setting.style))
    near = nearest(setting.name, known)
    elsewhere = [OBJECTS[style] for style in OBJECTS if setting.name in options_of(style)]
    is_slip = bool(near) and not elsewhere and num_edits(_plain(setting.name), _plain(near)) <= _MOST_EDITS
    place = OBJECTS[setting.style]
    if is_slip:
        told = f"{place} has no option {setting.name} (did you mean {near}?)."
        action = f"Write {near}."
    else:
        also = f", but to {elsewhere[0]}" if elsewhere else f"; a near name is {near}" if near else ""
        told = f"{setting.name} of {place} is not known to Jumar's table{also}."
        action = (
            f"Set it in {elsewhere[0]}, unless" if elsewhere else f"Write {near}, unless" if near else "Look whether"
        )
        action += " your version's documentation has it here."
    return RULE.finding(
        told,
        where=where(setting),
        evidence={"option": setting.name, "near": near, "set": shown(setting)},
        why=WHY[setting.style],
        action=action,
        severity=None if is_slip else Severity.WARNING,
        confidence="certain" if is_slip else "likely",
    )


def nearest(name: str, known: list[str]) -> str:
    """Return the known name that is closest, written in any case; empty where none is close."""
    lower = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), list(lower), n=1, cutoff=_CLOSE)
    return lower[found[0]] if found else ""


def num_edits(one: str, other: str) -> int:
    """Return how many letters are left out, added, changed or swapped with the next (optimal string alignment)."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        row = [i]
        for j, right in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (left != right))
            if i > 1 and j > 1 and left == other[j - 2] and one[i - 2] == right:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
