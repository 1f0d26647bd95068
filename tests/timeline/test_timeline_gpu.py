"""A trace of a real GPU (NVIDIA H200, PyTorch 2.11, CUDA 13.0), three steps of a small transformer under AdamW.

Recorded with `torch.profiler.profile(activities=[CPU, CUDA], schedule=schedule(wait=1, warmup=1, active=6),
record_shapes=True)`, cut to three of the steps, and without the fields about registers and occupancy.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from jumar.advise.timing import advise_timeline
from jumar.timeline.decompose import decompose
from jumar.timeline.model.events import Kind, Timeline
from jumar.timeline.reading import read_timeline

TRACE = Path(__file__).parent / "data" / "h200_three_steps.json.gz"


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return read_timeline(TRACE)


def test_every_event_is_read_as_what_it_is(timeline: Timeline) -> None:
    events = json.loads(gzip.decompress(TRACE.read_bytes()))["traceEvents"]
    written = Counter(event.get("cat") for event in events if event["ph"] == "X")
    kinds = Counter(Kind(int(kind)) for kind in timeline.events.kind)
    assert not timeline.lost
    assert (timeline.device, timeline.device_name) == ("cuda", "NVIDIA H200")
    assert kinds[Kind.KERNEL] == written["kernel"]
    assert kinds[Kind.COPY] == written["gpu_memcpy"] + written["gpu_memset"]
    assert kinds[Kind.OPERATOR] <= written["cpu_op"]
    assert len(timeline.steps) == 3


def test_kernels_start_after_their_launches(timeline: Timeline) -> None:
    events = timeline.events
    started = np.flatnonzero(timeline.of(Kind.RUNTIME) & (events.link != 0))
    launches = {int(events.link[i]): int(events.start_ns[i]) for i in started}
    kernels = np.flatnonzero(timeline.of(Kind.KERNEL))
    joined = [
        launches[int(events.link[i])] <= int(events.start_ns[i]) for i in kernels if int(events.link[i]) in launches
    ]
    assert all(joined)
    assert len(joined) > 0.95 * len(kernels)


def test_the_parts_of_each_step_add_up_and_the_device_is_mostly_idle(timeline: Timeline) -> None:
    for step in decompose(timeline).steps:
        assert sum(step.parts.values()) == step.step.duration_ns
        assert step.device_idle_ns is not None
        assert step.device_idle_ns > 0.8 * step.step.duration_ns


def test_the_host_is_named_as_the_bottleneck(timeline: Timeline) -> None:
    advice = advise_timeline(timeline)
    assert advice.findings[0].code == "JM428"
    assert "JM426" in advice.checked
