"""JM312 modules-renamed.

## What it does
Says which modules have other names in the target and were compared all the same, because they make the
same calculations in the same order. Prints the file for `--rename` that says so for good. Layers of a
list that are numbered otherwise, because one was inserted or left out, are told by the values of their
parameters.

## Why it matters
A name is no calculation: a renamed tree is no difference. But what was recognised by structure may be
wrong where two modules are alike; a file of renames leaves no doubt.

## Example
```text
blocks of the reference is layers of the target (29 modules)

blocks -> layers
```

## Use instead
Write the lines to a file and give it: `jumar compare REFERENCE TARGET --rename FILE`.

## Fix safety
No edit is made.

## References
None.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted
from jumar.comparison.model.correspondence import RenamedModules
from jumar.comparison.model.renames import rename_lines
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM312",
    name="modules-renamed",
    summary="Modules have other names in the target; they were recognised by what they calculate.",
    severity=Severity.INFO,
    doc=__doc__,
)

SHOWN = 4


def find(found: Evidenced) -> list[Finding]:
    """Return one finding for names and one for layers that are numbered otherwise."""
    renamed = found.correspondence.renamed
    shifted = [entry for entry in renamed if _is_shift(entry)]
    named = [entry for entry in renamed if not _is_shift(entry)]
    return [*_named(named), *_shifted(shifted)]


def _is_shift(entry: RenamedModules) -> bool:
    """Return whether only the number in a list of modules differs."""
    names = entry.reference.rpartition(".")[2], entry.target.rpartition(".")[2]
    return all(name.isdigit() for name in names)


def _named(renamed: list[RenamedModules]) -> list[Finding]:
    if not renamed:
        return []
    shown = "; ".join(
        f"{entry.reference or 'the root'} of the reference is {entry.target or 'the root'} of the target "
        f"({counted(entry.num_modules, 'module')})"
        for entry in renamed[:SHOWN]
    )
    lines = rename_lines((entry.reference, entry.target) for entry in renamed)
    return [
        RULE.finding(
            f"Modules have other names: {shown}{'; …' if len(renamed) > SHOWN else ''}.",
            evidence={"renames": lines, "pairs": [[entry.reference, entry.target] for entry in renamed]},
            why="They were recognised by what they calculate and compared.",
            action=f"To be sure, write these lines to a file and give it with --rename: {lines.replace(chr(10), '; ')}",
            confidence="likely",
        )
    ]


def _shifted(renamed: list[RenamedModules]) -> list[Finding]:
    if not renamed:
        return []
    first = renamed[0]
    by_values = any(entry.by_values for entry in renamed)
    how = "their parameters say so" if by_values else "nothing but their order says so"
    return [
        RULE.finding(
            f"{counted(len(renamed), 'layer')} of a list are numbered otherwise in the target, first {first.reference} "
            f"as {first.target}; {how}.",
            evidence={"pairs": [[entry.reference, entry.target] for entry in renamed], "by_values": by_values},
            why="A layer was inserted or left out; those after it were compared with their own counterparts.",
            confidence="likely" if by_values else "possible",
        )
    ]
