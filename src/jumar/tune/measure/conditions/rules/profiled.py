"""JM533 profiling-while-tuning.

## What it does
Reports profilers, debuggers and tracers that are on while a run begins, and on an NPU the static memory policy.

## Why it matters
A profiler makes every call longer, short ones most: candidates are then compared by what the profiler costs. With
static memory the vendor's tuner measures other addresses than the run will have.

## Example
PyTorch's profiler is on.

## Use instead
Turn it off; set static_memory_policy to 0 (unset GE_USE_STATIC_MEMORY).

## Fix safety
No edit is made.

## References
Document 001, preconditions: Profiling off, static_memory_policy = 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.measure.conditions.preconditions import Conditions

RULE = Rule(
    code="JM533",
    name="profiling-while-tuning",
    summary="Something watches the tuning run and makes its measurements longer.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(conditions: Conditions) -> Iterator[Finding]:
    """Yield one finding for all watchers, and one for static memory."""
    watchers = conditions.surroundings.profilers
    if watchers:
        yield RULE.finding(
            f"While this run measures, it is watched by {', '.join(watchers)}.",
            evidence={"profilers": list(watchers)},
            why="A profiler makes every call longer, short ones most.",
            action="Turn it off, then tune again.",
        )
    static = conditions.surroundings.static_memory
    if conditions.device == "npu" and static not in {"", "0"}:
        yield RULE.finding(
            f"static_memory_policy must be 0 while tuning; GE_USE_STATIC_MEMORY is {static}.",
            evidence={"GE_USE_STATIC_MEMORY": static},
            action="Unset GE_USE_STATIC_MEMORY.",
        )
