"""JM611 memory-over-limit.

## What it does
With `--soc`: adds `graph_memory_max_size` and `variable_memory_max_size`, and compares with the memory of the chip,
less 1 GB for the system (31 GB of 32, as the document counts).

## Why it matters
The run stops when the memory is taken.

## Example
```python
NPURunConfig(graph_memory_max_size=str(30 * 1024**3), variable_memory_max_size=str(5 * 1024**3))
```

## Use instead
```python
NPURunConfig(graph_memory_max_size=str(26 * 1024**3), variable_memory_max_size=str(5 * 1024**3))
```

## Fix safety
No edit is made.

## References
Document on AOE's typical cases, case 03.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import size_text
from jumar.soc.profiles import SOCS
from jumar.tfadapter.checks.subject import Given, is_told, text_of, where
from jumar.tfadapter.options import Setting

RULE = Rule(
    code="JM611",
    name="memory-over-limit",
    summary="Memory of graph and variables is more than the chip has.",
    severity=Severity.ERROR,
    doc=__doc__,
)


NAMES = ("graph_memory_max_size", "variable_memory_max_size")
RESERVED = 1024**3


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each session that asks for too much. Nothing without a chip whose memory is known."""
    profile = SOCS.get(given.soc or "")
    memory = profile.memory_bytes if profile is not None else None
    if memory is None:
        return
    groups: dict[str, dict[str, Setting]] = defaultdict(dict)
    for setting in given.settings:
        if setting.name in NAMES and is_told(setting.value) and text_of(setting.value).isdigit():
            groups[setting.group][setting.name] = setting
    for found in groups.values():
        total = sum(int(text_of(one.value)) for one in found.values())
        if total > memory - RESERVED:
            yield RULE.finding(
                f"{' and '.join(found)} are {size_text(total)} together; {given.soc} has "
                f"{size_text(memory - RESERVED)}.",
                where=where(next(iter(found.values()))),
                evidence={"bytes": total, "limit": memory - RESERVED},
                why="The memory is taken at the start: the run stops.",
                action="Lower one of them.",
            )
