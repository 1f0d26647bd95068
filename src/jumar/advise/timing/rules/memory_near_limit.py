"""JM470 memory-near-limit.

## What it does
Compares the most memory that was taken from the device with what the device has, and names who held it at the peak.

## Why it matters
Near the limit the allocator gives blocks back and asks for them again, which makes the host wait; one longer sequence
ends the run.

## Example
62 of 64 GiB are reserved; activations of the attention hold 40 of them.

## Use instead
Recompute activations (`torch.utils.checkpoint`), a smaller batch with gradient accumulation, a sharded optimizer
(FSDP, ZeRO), bfloat16 for the optimizer's moments.

## Fix safety
No edit is made.

## References
PyTorch's notes on memory management; the vendor's guide to memory of the NPU.
"""

from __future__ import annotations

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.memory import device_peaks
from jumar.advise.timing.profile import Profile
from jumar.base.errors import DeviceError
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.base.text.sizes import size_text
from jumar.recording.schema import split_source
from jumar.soc.profiles import get_soc
from jumar.timeline.model.events import Timeline

RULE = Rule(
    code="JM470",
    name="memory-near-limit",
    summary="Nearly all memory of the device is taken.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
NEEDS_DEVICE = True


def find(profile: Profile) -> Outcomes:
    """Yield one finding for each device whose memory is nearly full at the peak."""
    peaks = device_peaks(profile.timeline)
    if not peaks:
        yield not_checked(RULE, "the timeline has no memory of a device; `jumar profile --memory` notes it.")
        return
    limit = _limit(profile.timeline)
    if limit is None:
        yield not_checked(RULE, "the size of the device's memory is not known.")
        return
    for device, peak in peaks.items():
        if peak < profile.thresholds.of("JM470", "share") * limit:
            continue
        owners = next((one.owners for one in profile.timeline.allocations if one.device == device and one.owners), ())
        path, line = split_source(owners[0].name) if owners else (None, None)
        held = f" Most of it is held by {owners[0].name} ({size_text(owners[0].size_bytes)})." if owners else ""
        yield RULE.finding(
            f"{device} had {size_text(peak)} of its {size_text(limit)} taken at the peak, "
            f"{percent_text(peak / limit)}.{held}",
            where=Location(path=path, line=line),
            evidence={"device": device, "peak_bytes": peak, "limit_bytes": limit,
                      "owners": {one.name: one.size_bytes for one in owners[:5]}},
            why="Near the limit the allocator gives memory back and asks for it again; a longer batch ends the run.",
            action="Recompute activations, accumulate gradients over smaller batches, or shard the optimizer.",
        )  # fmt: skip


def _limit(timeline: Timeline) -> int | None:
    """Return the bytes of one device, as the trace says or as the chip has."""
    told = timeline.facts.get("device_memory_bytes", "")
    if told.isdigit():
        return int(told)
    try:
        return get_soc(timeline.device_name).memory_bytes if timeline.device_name else None
    except DeviceError:
        return None
