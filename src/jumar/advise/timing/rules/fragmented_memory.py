"""JM435 fragmented-memory.

## What it does
Compares what the allocator took from the device with what was in use at the peak, names who held the peak, and counts
how often memory was taken from the device and given back in the middle of training.

## Why it matters
What lies between is lost to the run: a batch that would fit does not. Taking memory from the device, and giving it
back, makes the host wait for the device.

## Example
```python
for tokens in loader:  # another length in each batch
    train_step(tokens)
```

## Use instead
```
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py
PYTORCH_NPU_ALLOC_CONF=expandable_segments:True python train.py
```
Pad to few lengths; take the largest batch first; keep no `empty_cache()` in the loop.

## Fix safety
No edit is made.

## References
PyTorch's notes on the CUDA allocator and its snapshots; the vendor's allocator options.
"""

from __future__ import annotations

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.base.text.sizes import size_text
from jumar.recording.schema import split_source
from jumar.timeline.model.allocations import Allocations

RULE = Rule(
    code="JM435",
    name="fragmented-memory",
    summary="Much of the memory taken from the device is never in use.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding for each device whose reserved memory was far above what was in use."""
    if not profile.timeline.allocations:
        yield not_checked(
            RULE, "there is no snapshot of the allocator; `torch.cuda.memory._record_memory_history()` makes one."
        )
        return
    for memory in profile.timeline.allocations:
        lost = memory.peak_reserved_bytes - memory.peak_bytes
        share = 1 - memory.peak_reserved_share
        if share >= profile.thresholds.of("JM435", "share") and lost >= 1e6 * profile.thresholds.of(
            "JM435", "least_mb"
        ):
            yield _finding(memory, lost, share)


def _finding(memory: Allocations, lost: int, share: float) -> Finding:
    owner = memory.owners[0] if memory.owners else None
    path, line = split_source(owner.name) if owner is not None else (None, None)
    held = f" Most of the peak is held by {owner.name} ({size_text(owner.size_bytes)})." if owner is not None else ""
    again = ""
    if memory.num_device_frees:
        again = f" Memory was given back to the device {memory.num_device_frees:,} times."
    return RULE.finding(
        f"{size_text(lost)} of the {size_text(memory.peak_reserved_bytes)} taken from {memory.device} were not in use "
        f"at the peak, {percent_text(share)}.{held}{again}",
        where=Location(path=path, line=line),
        evidence={
            "peak_bytes": memory.peak_bytes,
            "peak_reserved_bytes": memory.peak_reserved_bytes,
            "device_allocations": memory.num_device_allocations,
            "device_frees": memory.num_device_frees,
            "owners": {one.name: one.size_bytes for one in memory.owners[:5]},
        },
        why="A batch that would fit does not, and taking memory from the device makes the host wait.",
        action="Set expandable_segments:True for the allocator, keep shapes the same, and take out `empty_cache()`.",
    )
