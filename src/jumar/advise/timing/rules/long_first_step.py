"""JM425 long-first-step.

## What it does
Compares the first step with the median of the others, and says how much of it is compiling.

## Why it matters
The first step compiles, fills caches and warms up. In short runs (tests, fine-tuning, a restart after a fault) it may
be most of the time; averages that include it say nothing of the others.

## Example
```python
torch.npu.set_compile_mode(jit_compile=True)
```

## Use instead
```python
torch.npu.set_compile_mode(jit_compile=False)
```
Keep caches between runs (`TORCHINDUCTOR_CACHE_DIR`, `ASCEND_CACHE_PATH`), and leave the first step out of averages.

## Fix safety
No edit is made. Operators that are compiled online may be faster later on some chips.

## References
The vendor's tuning guides: the first step is long because operators are compiled.
"""

from __future__ import annotations

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM425",
    name="long-first-step",
    summary="The first step takes many times as long as the others.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding, for information, when the first step is many times as long as the others."""
    if len(profile.timeline.steps) < 2:
        yield not_checked(RULE, "needs two steps.")
        return
    first, median = profile.windows[0], profile.median_ns
    times = first.duration_ns / median if median else 0.0
    extra_ms = (first.duration_ns - median) / 1e6
    least = profile.thresholds.of("JM425", "least_ms")
    if times < profile.thresholds.of("JM425", "times") or extra_ms < least:
        return
    compiling = profile.of_events(profile.timeline.of(Kind.COMPILE))
    part = compiling.clip(first.start_ns, first.end_ns).total_ns / first.duration_ns
    known = f"; {percent_text(part)} of it is compiling" if part else ""
    yield RULE.finding(
        f"The first step takes {first.duration_ns / 1e6:,.0f} ms, {times:,.0f} times the median of the others "
        f"({median / 1e6:,.1f} ms){known}. It is left out of every figure here.",
        where=Location(step=first.number),
        evidence={"first_ms": round(first.duration_ns / 1e6, 3), "median_ms": round(median / 1e6, 3),
                  "compiling_share": round(part, 3)},
        why="Averages that include it say nothing of the others, and short runs are mostly this step.",
        action="Keep the compilers' caches between runs, and leave the first step out of averages.",
    )  # fmt: skip
