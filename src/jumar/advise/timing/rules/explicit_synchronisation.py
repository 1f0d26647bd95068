"""JM422 explicit-synchronisation.

## What it does
Counts the calls in the judged steps that make the host wait for the whole device, or give the allocator's memory
back: `synchronize()`, `empty_cache()`, and what they are called in the runtime of CUDA and of the NPU.

## Why it matters
The host queues work ahead of the device. A wait for everything empties that queue, and the device idles until it is
filled again; memory that was given back is asked for again, which waits as well.

## Example
```python
for batch in loader:
    train_step(batch)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
```

## Use instead
```python
for batch in loader:
    train_step(batch)
```
Time with events, and empty the cache only between phases that need different memory.

## Fix safety
No edit is made.

## References
PyTorch's notes on CUDA semantics: asynchronous execution, memory management.
"""

from __future__ import annotations

from jumar.advise.bottlenecks.tally import at_text, number_text, percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Mask, Profile
from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.recording.schema import split_source
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM422",
    name="explicit-synchronisation",
    summary="The host waits for the whole device, or empties the allocator's cache, in every step.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
NEEDS_DEVICE = True
_CALLS = {
    "synchronize()": (
        "cudadevicesynchronize", "aclrtsynchronizedevice", "hipdevicesynchronize", "cuda.synchronize",
        "npu.synchronize", "accelerator.synchronize",
    ),
    "empty_cache()": ("empty_cache", "emptycache"),
}  # fmt: skip


def find(profile: Profile) -> Outcomes:
    """Yield one finding for each of the two kinds of calls that are made in most steps."""
    named = {call: profile.named(*words) for call, words in _CALLS.items()}
    if not any(mask.any() for mask in named.values()) and not profile.has(Kind.RUNTIME, Kind.WAIT, Kind.PYTHON):
        yield not_checked(RULE, "the timeline has no calls of a device's runtime and no Python functions.")
        return
    for call, mask in named.items():
        positions = profile.inside(mask)
        spans = profile.spans(mask)
        often = profile.rate(len(positions)) >= profile.thresholds.of("JM422", "least_calls")
        if often and profile.share(spans) >= profile.thresholds.of("JM422", "share"):
            yield _finding(profile, call, mask)


def _finding(profile: Profile, call: str, mask: Mask) -> Finding:
    positions, spans = profile.inside(mask), profile.spans(mask)
    source = profile.line_of(positions)
    path, line = split_source(source)
    spent = profile.per_step_ms(spans.total_ns)
    finding = RULE.finding(
        f"`{call}` is called {number_text(profile.rate(len(positions)))} times a step{at_text(source)} and takes "
        f"{spent:,.2f} ms of it, {percent_text(profile.share(spans))}.",
        where=Location(path=path, line=line),
        evidence={"calls_per_step": round(profile.rate(len(positions)), 2), "ms_per_step": round(spent, 3)},
        why="The device's queue runs empty, and the device idles until the host has filled it again.",
        action=f"Take `{call}` out of the loop.",
    )
    return profile.priced(finding, spans)
