"""JM421 waiting-for-data.

## What it does
Adds up the time in which the program waits for its next batch (or makes it, without workers), the parts in which
the device calculates left out, and says how long a step would be if loading were free. Where the profile has the
depth of the loader's queue and the times inside the workers, it names the stage that is slow; where it has the queues
of MindSpore's data pipeline, the operator whose queue is empty while rows wait before it.

## Why it matters
No step can be faster than its data. The device is idle meanwhile, however fast it is.

## Example
```python
loader = DataLoader(dataset, batch_size=256)
```

## Use instead
```python
loader = DataLoader(dataset, batch_size=256, num_workers=8, pin_memory=True, persistent_workers=True)
```
Decode and resize once beforehand; use a library with faster kernels (Pillow-SIMD, OpenCV) for the slow stage.

## Fix safety
No edit is made.

## References
The vendor's tuning guides: a long gap between iterations comes from data.
"""

from __future__ import annotations

import statistics

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile
from jumar.advise.timing.stages import slow_stage
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.timeline.model.events import Kind
from jumar.timeline.spans import Spans

RULE = Rule(
    code="JM421",
    name="waiting-for-data",
    summary="Steps wait for their data.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

NEEDS_WORK = False


def find(profile: Profile) -> Outcomes:
    """Yield one finding when waiting for data fills a share of the steps."""
    if not profile.has(Kind.DATA):
        yield not_checked(RULE, "the timeline has no event of a data loader; a loop without DataLoader leaves none.")
        return
    waits = profile.spans(profile.timeline.of(Kind.DATA)) - _device_works(profile)
    share = profile.share(waits)
    waited, step = profile.per_step_ms(waits.total_ns), profile.per_step_ms(profile.time.total_ns)
    if share < profile.thresholds.of("JM421", "share") or waited < profile.thresholds.of("JM421", "least_ms"):
        return
    depth, slowest, operator = _median_depth(profile), _slowest_stage(profile), slow_stage(profile.timeline)
    finding = RULE.finding(
        f"{waited:,.1f} ms of each step wait for data, {percent_text(share)} of it; if loading were free, a step would "
        f"take {step - waited:,.1f} ms instead of {step:,.1f}." + (f" {operator}" if operator else _told(slowest)),
        where=Location(step=profile.judged[0].number),
        evidence={
            "waits_ms_per_step": round(waited, 3),
            "step_ms": round(step, 3),
            "step_ms_with_free_loading": round(step - waited, 3),
            **({"median_queue_depth": depth} if depth is not None else {}),
            **({"slow_operator": operator.queue.operator} if operator else {}),
            **({"slowest_stage": slowest[0], "stage_ms_per_batch": round(slowest[1], 3)} if slowest else {}),
        },
        why="The device does nothing meanwhile: a faster one does not shorten this.",
        action=operator.action if operator else _action(depth, slowest[0] if slowest else None),
        severity=None if share >= profile.thresholds.of("JM421", "advice_share") else Severity.INFO,
    )
    yield profile.priced(finding, waits)


def _device_works(profile: Profile) -> Spans:
    return profile.spans(profile.timeline.of(Kind.KERNEL, Kind.COLLECTIVE) & profile.timeline.on("device"))


def _median_depth(profile: Profile) -> float | None:
    counters = [one for one in profile.timeline.counters if "queue" in one.name]
    last = [one for one in counters if not one.name.startswith("queue behind")]
    depths = [value for one in last or counters for value in one.values.tolist()]
    return statistics.median(depths) if depths else None


STAGES = {
    "loader fetch": ("the dataset makes its samples", "More `num_workers`; decode and resize once beforehand."),
    "loader collate": ("samples are collated", "A cheaper `collate_fn`: batches in the dataset (`__getitems__`)."),
    "loader transfer": ("batches pass from the worker", "Smaller batches in bytes: uint8 images, float16, no padding."),
    "loader pin": ("batches are pinned", "Pinning costs more than it saves here: try `pin_memory=False`."),
}
"""Events of the loader that `jumar profile` notes: what happens, and what helps where it takes longest."""


def _slowest_stage(profile: Profile) -> tuple[str, float] | None:
    """Return the stage of the loader that takes longest for a batch, and its milliseconds; None where none is known."""
    events, names = profile.timeline.events, profile.timeline.names
    known = {names.index(stage): stage for stage in STAGES if stage in names}
    means = {stage: float(events.duration_ns[events.name == index].mean()) / 1e6 for index, stage in known.items()}
    slowest = max(means, key=means.__getitem__, default=None)
    return (slowest, means[slowest]) if slowest is not None else None


def _told(slowest: tuple[str, float] | None) -> str:
    return f" {STAGES[slowest[0]][0].capitalize()} for {slowest[1]:,.1f} ms a batch." if slowest else ""


def _action(depth: float | None, stage: str | None) -> str:
    if depth is None and stage is None:
        return (
            "Load in worker processes (`num_workers`, `persistent_workers`, `pin_memory`), or prepare data beforehand."
        )
    if depth is not None and depth >= 1:
        return "The queue is not empty: the wait is a copy or the collation in the main process (`pin_memory`)."
    empty = "" if depth is None else "The queue is empty. "
    return empty + (STAGES[stage][1] if stage else "More `num_workers`, or cheaper work for each sample.")
