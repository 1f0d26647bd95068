"""JM455 profiler-overhead.

## What it does
Compares the steps in the trace with steps of the same run without the profiler, which `jumar profile` measures, and
says so where the trace's steps are much longer.

## Why it matters
Times of a profile hold the profiler's own work. Where that is much, short operators and the host look worse than they
are.

## Example
A step takes 5 ms without the profiler and 12 ms in the trace with stacks and memory.

## Use instead
Profile with less: without `--stacks` and `--memory`, with fewer steps. Judge shares with care.

## Fix safety
No edit is made.

## References
PyTorch's profiler: record_shapes, with_stack and profile_memory add overhead.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM455",
    name="profiler-overhead",
    summary="The profiler makes the steps much longer.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding where the traced steps are longer than the others by a factor, beyond their own spread."""
    facts = profile.timeline.facts
    try:
        plain, traced = float(facts["plain_step_ms"]), float(facts["traced_step_ms"])
    except (KeyError, ValueError):
        yield not_checked(RULE, "steps without the profiler are not known; `jumar profile` measures some.")
        return
    if facts.get("overhead_is_noise") == "True" or plain <= 0:
        return
    if traced < plain * profile.thresholds.of("JM455", "factor"):
        return
    yield RULE.finding(
        f"A step takes {traced:,.1f} ms in the trace and {plain:,.1f} ms without the profiler, {traced / plain:,.1f} "
        "times: the times of this profile hold much of the profiler's own work.",
        evidence={"traced_step_ms": round(traced, 3), "plain_step_ms": round(plain, 3)},
        why="Short operators and the host look worse than they are.",
        action="Profile with less: no `--stacks`, no `--memory`, `--no-shapes`; and compare shares with care.",
    )
