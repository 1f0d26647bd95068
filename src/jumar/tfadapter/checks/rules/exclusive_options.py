"""JM604 exclusive-options.

## What it does
Finds pairs that may not be on together, in one session, one DumpConfig or one process: `enable_dump` and
`enable_dump_debug`; `precision_mode` and `precision_mode_v2`; `op_precision_mode` and `op_select_implmode`;
`mix_compile_mode` and `iterations_per_loop` greater than 1. Settings
in two arms of one `if` are not together; where each has an `if` of its own, the finding is for information.

## Why it matters
Dump and overflow detection write the same files: only one of them can run.

## Example
```python
DumpConfig(enable_dump=True, enable_dump_debug=True, dump_path="/data/dump")
```

## Use instead
```python
DumpConfig(enable_dump_debug=True, dump_path="/data/dump")
```

## Fix safety
No edit is made.

## References
Document on overflow collection: enable_dump and enable_dump_debug are not on together. Mixed computing:
https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/800/migration/tfmigr1/tfmigr1_000074.html
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tfadapter.checks.subject import Given, is_told, shown, text_of, where
from jumar.tfadapter.options import Option, Setting

RULE = Rule(
    code="JM604",
    name="exclusive-options",
    summary="Two options are on that exclude each other.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each pair."""
    on = [(setting, option) for setting, option in given.known() if option.excludes and _is_on(setting, option)]
    told = set()
    pairs = [(one, other) for (one, option), (other, _) in combinations(on, 2) if _excludes(option, one, other)]
    for one, other in sorted(pairs, key=lambda pair: not pair[0].is_certain_with(pair[1])):
        pair = (one.group, *sorted((one.name, other.name)))
        if pair not in told:
            told.add(pair)
            yield _finding(one, other)


def _finding(one: Setting, other: Setting) -> Finding:
    is_certain = one.is_certain_with(other)
    line = f" (line {one.line})" if one.line is not None else ""
    return RULE.finding(
        f"{one.name} and {other.name} may not be on together"
        f"{'.' if is_certain else f'; they are where the conditions of both lines hold{line}.'}",
        where=where(other),
        evidence={"options": [shown(one), shown(other)], "lines": [one.line, other.line]},
        why="Only one of them can have effect.",
        action=f"Leave {other.name} out, or {one.name}{line}.",
        severity=None if is_certain else Severity.INFO,
        confidence="certain" if is_certain else "possible",
    )


def _is_on(setting: Setting, option: Option) -> bool:
    """Tell whether an option has a value that does something: iterations_per_loop of 1 does not."""
    off = setting.value in (False, 0, b"", "") or text_of(setting.value) == option.default
    return is_told(setting.value) and not off


def _excludes(option: Option, one: Setting, other: Setting) -> bool:
    together = one.group == other.group and not one.excludes(other)
    return together and other.name.rpartition(".")[2] in option.excludes
