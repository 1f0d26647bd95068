"""A timeline -> `Flame`: its calls merged by their path, with the time of the host and of what they started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from jumar.show.blocks.profiles import Flame, FlameNode
from jumar.show.pages.profile.launched import device_ns
from jumar.timeline.model import nesting
from jumar.timeline.model.events import Integers, Kind, StepWindow, Timeline
from jumar.timeline.spans import Spans

CALLS = (Kind.OPERATOR, Kind.RANGE, Kind.COLLECTIVE, Kind.COMPILE, Kind.DATA, Kind.COLLECTOR)
MODULE = "nn.Module: "
MAX_NODES = 5000
"""Nodes that are kept, those with the most time."""

Numbers = npt.NDArray[np.float64]


def flame_picture(timeline: Timeline, windows: Sequence[StepWindow]) -> Flame | None:
    """Return the flame graph of the calls that begin in these steps; None where the timeline has no calls."""
    rows = _calls(timeline, windows)
    if not len(rows):
        return None
    events = timeline.events
    rows = rows[nesting.in_order(events.lane[rows].astype(np.int64), events.start_ns[rows], events.duration_ns[rows])]
    holders = nesting.parents(events.lane[rows].astype(np.int64), events.start_ns[rows], events.duration_ns[rows])
    tree = _Tree()
    nodes = _placed(tree, timeline, rows, holders)
    size = len(tree.names)
    calls = np.bincount(nodes, minlength=size)
    host: Numbers = np.bincount(nodes, events.duration_ns[rows].astype(float), size).astype(np.float64)
    device: Numbers = np.bincount(nodes, device_ns(timeline, rows), size).astype(np.float64)
    for node in range(size - 1, -1, -1):  # a node comes after the one that holds it
        parent = tree.parents[node]
        if parent != nesting.NO_PARENT:
            device[parent] += device[node]
            host[parent] += host[node] if calls[parent] == 0 else 0  # a thread or a module: no call of its own
    return _flame(tree, host, device, calls, max(len(windows), 1))


@dataclass(slots=True)
class _Tree:
    """Nodes by the node that holds them and their name."""

    parents: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    known: dict[tuple[int, str], int] = field(default_factory=dict)

    def at(self, parent: int, path: Sequence[str]) -> int:
        """Return the node at the end of a path below `parent`, which is -1 for the root."""
        for name in path:
            key = (parent, name)
            if key not in self.known:
                self.known[key] = len(self.names)
                self.parents.append(parent)
                self.names.append(name)
            parent = self.known[key]
        return parent


def _calls(timeline: Timeline, windows: Sequence[StepWindow]) -> Integers:
    """Return the calls of the host in these steps, with modules that the profiler noted among Python's functions."""
    modules = timeline.of(Kind.PYTHON) & timeline.named(lambda name: name.startswith(MODULE))
    starts = np.array([step.start_ns for step in windows], np.int64)
    inside = Spans.of(starts, np.array([step.end_ns for step in windows], np.int64)).hold(timeline.events.start_ns)
    return np.flatnonzero((timeline.of(*CALLS) | modules) & timeline.on("host") & inside)


def _placed(tree: _Tree, timeline: Timeline, rows: Integers, holders: Integers) -> Integers:
    """Return the node of each call: level by level, one look-up for all calls of one name below one node."""
    lanes, names = timeline.events.lane[rows].astype(np.int64), timeline.events.name[rows].astype(np.int64)
    words, modules = _modules(timeline, rows)
    several = len(np.unique(lanes)) > 1
    nodes = np.full(len(rows), nesting.NO_PARENT, np.int64)
    here = holders == nesting.NO_PARENT
    while here.any():
        level = np.flatnonzero(here)
        held = holders[level] != nesting.NO_PARENT
        base = np.where(held, nodes[holders[level]], -2 - lanes[level])
        module = np.where(held & (modules[holders[level]] > 0), 0, modules[level])
        keys, inverse = np.unique(np.stack([base, module, names[level]], axis=1), axis=0, return_inverse=True)
        found = []
        for holder, path, name in keys.tolist():
            parent = holder
            if holder < nesting.NO_PARENT:
                parent = tree.at(nesting.NO_PARENT, [timeline.lanes[-2 - holder].name] if several else [])
            found.append(tree.at(parent, [*words[path], timeline.names[name]]))
        nodes[level] = np.array(found, np.int64)[inverse.reshape(-1)]
        here = (holders != nesting.NO_PARENT) & here[holders]
    return nodes


def _modules(timeline: Timeline, rows: Integers) -> tuple[list[list[str]], Integers]:
    """Return the paths of modules in parts, the first one empty, and for each call the index of its own."""
    paths = sorted({detail.module for detail in timeline.details} - {""})
    index = {path: place for place, path in enumerate(paths, start=1)}
    of_detail = np.array([*(index.get(detail.module, 0) for detail in timeline.details), 0], np.int64)
    return [[], *(path.split(".") for path in paths)], of_detail[timeline.events.detail[rows]]


def _flame(tree: _Tree, host: Numbers, device: Numbers, calls: npt.NDArray[np.int64], steps: int) -> Flame:
    """Return the greatest nodes. A node is never smaller than what it holds, so no kept node loses its holder."""
    reach = np.maximum(host / (host.max() or 1), device / (device.max() or 1))
    for node in range(len(reach) - 1, -1, -1):
        if tree.parents[node] != nesting.NO_PARENT:
            reach[tree.parents[node]] = max(reach[tree.parents[node]], reach[node])
    kept = np.sort(np.argsort(-reach, kind="stable")[:MAX_NODES])
    place = {int(node): index for index, node in enumerate(kept)} | {nesting.NO_PARENT: nesting.NO_PARENT}
    nodes = [
        FlameNode(
            parent=place[tree.parents[node]], name=tree.names[node], host_ms=float(host[node]) / 1e6 / steps,
            device_ms=float(device[node]) / 1e6 / steps, calls=int(calls[node]) / steps,
        )
        for node in kept.tolist()
    ]  # fmt: skip
    note = "" if len(kept) == len(reach) else f"Drawn: the {len(kept):,} greatest of {len(reach):,} call paths."
    return Flame(title="Where the time goes, by call path", nodes=nodes, note=note)
