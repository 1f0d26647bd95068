"""Ready times of a MindSpore recording's gradients from what MindSpore's profiler wrote: `Profiled`.

A profile of a graph names each operator by its place, such as
`Gradients/Default/network-WithLossCell/_backbone-Net/0-Block/conv1-Conv2d/Grad_Conv2D/Conv2DBackpropFilter-op7`.
The cell in it is not to be relied on: MindSpore (2.10) gives equal cells the name of the first of them. Its class is.
So the k-th operators of a class are those of the k-th layer of that class whose backward pass the recording has, where
their number fits: one or several for each layer, and for one layer one less, because the network's input needs no
gradient. A gradient is ready at the end of the last such operator. Operators that only compute the gradient of the
layer's input are left out.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jumar.base.errors import InputError
from jumar.base.text import listing
from jumar.timeline.collectives import operation_of
from jumar.timeline.model.events import Kind, Timeline
from jumar.timeline.reading import read_timeline

BACKWARD = "Gradients/"
_OF_INPUT = "BackpropInput"
_SIZE = "Transit Size(MB)"

Place = tuple[str, str]
"""Class of a cell, type of an operator."""
Span = tuple[int, int]
"""Begin and end in ns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """What a profile says of the backward pass."""

    path: Path
    ends_us: Mapping[Place, Sequence[float]]
    """Ends of the operators, in their order, from the begin of the first; medians of the steps."""
    num_steps: int
    device: str
    all_reduces: Sequence[tuple[float, float]]
    """Of each all-reduce: bytes that it sent, to a common factor, and seconds. Empty where the profile has none."""

    def ready_us(self, layers: Sequence[tuple[str, str]]) -> dict[str, float]:
        """Return by path when the gradients of a layer are ready; `layers` has classes and paths in backward order.

        Layers of a class whose operators do not fit their number are left out.
        """
        paths: dict[str, list[str]] = defaultdict(list)
        for class_name, path in layers:
            paths[class_name].append(path)
        found: dict[str, float] = {}
        for (class_name, _), ends in self.ends_us.items():
            for path, end in _shared(paths.get(class_name, ()), ends):
                found[path] = max(found.get(path, 0.0), end)
        return found

    def samples(self, total_bytes: int) -> list[tuple[int, list[float]]]:
        """Return (bytes, seconds of each) of the all-reduces, which together reduce so many bytes a step."""
        sent = sum(size for size, _ in self.all_reduces)
        found: dict[int, list[float]] = defaultdict(list)
        for size, seconds in self.all_reduces:
            found[round(size / sent * total_bytes * self.num_steps)].append(seconds)
        return sorted(found.items())


def _shared(paths: Sequence[str], ends: Sequence[float]) -> Iterator[tuple[str, float]]:
    """Yield the layers with the end of each of their operators of one type; nothing where the numbers do not fit."""
    if not paths:
        return
    each = -(-len(ends) // len(paths))
    if each * len(paths) - len(ends) <= min(1, each - 1):
        yield from ((paths[place // each], end) for place, end in enumerate(ends))


def read_profile(path: Path, classes: Collection[str], rank: int | None = None) -> Profiled:
    """Return what a profile says of layers of these classes.

    Raises InputError where it is not of MindSpore's profiler, or not of a graph with such layers.
    """
    timeline = read_timeline(path, rank)
    if timeline.format != "mindspore":
        raise InputError(f"--times must name what MindSpore's profiler wrote; {path} is of {timeline.format}.")
    spans = {
        name: found
        for name, found in backward_spans(timeline).items()
        if (place := place_of(name)) is not None and place[0] in classes
    }
    if not spans:
        raise InputError(
            f"{path} has no operator that names the backward pass of {listing(sorted(classes), 4)}. Profile the same "
            "network as a graph: mindspore.set_context(mode=mindspore.GRAPH_MODE). In PyNative mode operators do not "
            "say where they belong."
        )
    ends, num_steps = ends_of(spans)
    return Profiled(
        path=path, ends_us=ends, num_steps=num_steps, device=timeline.device, all_reduces=all_reduces(timeline)
    )


def backward_spans(timeline: Timeline) -> dict[str, list[Span]]:
    """Return the backward operators by name, one span a step: the device's where it has any, else the host's."""
    chosen = timeline.named(lambda name: name.startswith(BACKWARD))
    on_device = chosen & timeline.on("device")
    spans: dict[str, list[Span]] = defaultdict(list)
    for row in np.flatnonzero(on_device if on_device.any() else chosen):
        start = int(timeline.events.start_ns[row])
        spans[timeline.name_of(int(row))].append((start, start + int(timeline.events.duration_ns[row])))
    return {name: sorted(found) for name, found in spans.items()}


def place_of(name: str) -> Place | None:
    """Return the class of the cell and the type of the operator; None where its gradient is of a cell's input only."""
    *scopes, operator = name.split("/")
    classes = [scope.partition("-")[2] for scope in scopes if "-" in scope]
    return (classes[-1], operator.partition("-op")[0]) if classes and _OF_INPUT not in operator else None


def ends_of(spans: Mapping[str, Sequence[Span]]) -> tuple[dict[Place, list[float]], int]:
    """Return the ends of the operators of each place in us, medians of the steps, and the number of steps.

    An operator runs once a step. The first step is left out where there are more.
    """
    count = statistics.mode(len(found) for found in spans.values())
    whole = {name: found for name, found in spans.items() if len(found) == count}
    chosen = range(min(1, count - 1), count)
    begins = [min(found[step][0] for found in whole.values()) for step in chosen]
    ends: dict[Place, list[float]] = defaultdict(list)
    for name, found in sorted(whole.items(), key=lambda one: one[1][-1]):
        place = place_of(name)
        if place is not None:
            after = [found[step][1] - begin for step, begin in zip(chosen, begins, strict=True)]
            ends[place].append(statistics.median(after) / 1000)
    return dict(ends), count


def all_reduces(timeline: Timeline) -> list[tuple[float, float]]:
    """Return the bytes that each all-reduce of the device sent, and its seconds, where the profile has both."""
    found = []
    for row in np.flatnonzero(timeline.of(Kind.COLLECTIVE) & timeline.on("device")):
        detail = timeline.detail_of(int(row))
        if detail is None or operation_of(timeline.name_of(int(row))) != "all_reduce":
            continue
        sent = sum(float(text) for key, text in detail.more if key.endswith(_SIZE))
        if sent > 0:
            found.append((sent * 1e6, float(timeline.events.duration_ns[row]) / 1e9))
    return found
