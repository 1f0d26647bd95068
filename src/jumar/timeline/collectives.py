"""`Collectives`: the collective calls of one rank, so that those of several ranks can be matched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jumar.timeline.model import nesting
from jumar.timeline.model.events import Integers, Kind, Timeline

OF_LIBRARY = re.compile(r"(nccl|gloo|hccl|rccl|xccl|ucc|mpi):(?P<word>\w+)")
OPERATIONS = {
    "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter", "alltoall": "all_to_all",
    "broadcast": "broadcast", "barrier": "barrier", "sendrecv": "send_recv", "send": "send", "recv": "recv",
    "receive": "recv", "scatter": "scatter", "gather": "gather", "reduce": "reduce",
}  # fmt: skip
"""What names of calls and kernels contain, without underscores and in lower case, the more special ones first."""
POINT_TO_POINT = frozenset({"send", "recv", "send_recv"})
SYNCHRONISING = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"})
"""All ranks end these together: none has its result before every rank has sent its part."""
NAME_FIELD = "Collective name"
GROUP_FIELDS = ("Process Group Name", "Group")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collectives:
    """The calls of one rank in the order of their begin, n entries each. Times are nanoseconds since `origin_ns`."""

    rank: int
    origin_ns: int
    """Nanoseconds since 1970 of time 0; 0 where the format does not know."""
    operations: tuple[str, ...]
    """`all_reduce`, or the call's own name where it is none of the known ones."""
    groups: tuple[str, ...]
    """Name of the group of ranks; empty where the format does not tell."""
    steps: Integers
    """Number of the step in which each begins; -1 outside of all steps."""
    starts_ns: Integers
    ends_ns: Integers

    def __len__(self) -> int:
        """Return the number of calls."""
        return len(self.starts_ns)


def operation_of(name: str) -> str:
    """Return `all_reduce` for `nccl:all_reduce`, `ncclDevKernel_AllReduce_Sum_f32_RING` and `hcom_allReduce__428`."""
    found = OF_LIBRARY.match(name)
    low = (found["word"] if found else name.partition("__")[0]).lower().replace("_", "")
    return next((word for part, word in OPERATIONS.items() if part in low), name)


def collectives_of(timeline: Timeline) -> Collectives:
    """Return the collectives of a timeline: those on the device where it has some, else the library's on the host.

    Of calls inside of each other the outermost counts once.
    """
    rows = _rows(timeline)
    events = timeline.events
    told = [dict(detail.more) for detail in timeline.details]
    names = [next((one[key] for key in GROUP_FIELDS if key in one), "") for one in told]
    starts = events.start_ns[rows]
    return Collectives(
        rank=timeline.rank,
        origin_ns=timeline.origin_ns,
        operations=tuple(_operations(timeline, rows, [one.get(NAME_FIELD, "") for one in told])),
        groups=tuple(names[index] if index >= 0 else "" for index in events.detail[rows]),
        steps=_steps(timeline, starts),
        starts_ns=starts,
        ends_ns=events.end_ns[rows],
    )


def _operations(timeline: Timeline, rows: Integers, told: list[str]) -> Iterator[str]:
    """Yield the operation of each call: as the profiler names it beside the call, else by the name.

    NCCL's kernel of an all-to-all is that of sending and receiving: the names of the host's calls tell them apart.
    """
    words = [operation_of(name) for name in timeline.names]
    on_host = {words[index] for index in timeline.events.name[timeline.of(Kind.COLLECTIVE) & timeline.on("host")]}
    to_all = "all_to_all" in on_host and not on_host & {"send", "recv"}
    for name, detail in zip(timeline.events.name[rows].tolist(), timeline.events.detail[rows].tolist(), strict=True):
        word = operation_of(told[detail]) if detail >= 0 and told[detail] else words[name]
        yield "all_to_all" if to_all and word == "send_recv" else word


def _rows(timeline: Timeline) -> Integers:
    chosen = timeline.of(Kind.COLLECTIVE)
    on_device = chosen & timeline.on("device")
    if on_device.any():
        return _outermost(timeline, on_device)
    named = chosen & timeline.named(OF_LIBRARY.match)
    return _outermost(timeline, named if named.any() else chosen)


def _outermost(timeline: Timeline, chosen: npt.NDArray[np.bool_]) -> Integers:
    """Return the rows that lie in no other of them on their lane, by begin."""
    events, rows = timeline.events, np.flatnonzero(chosen)
    lanes = events.lane[rows].astype(np.int64)
    order = nesting.in_order(lanes, events.start_ns[rows], events.duration_ns[rows])
    rows = rows[order]
    holders = nesting.parents(lanes[order], events.start_ns[rows], events.duration_ns[rows])
    return np.sort(rows[holders == nesting.NO_PARENT])


def _steps(timeline: Timeline, times: Integers) -> Integers:
    if not timeline.steps:
        return np.full(len(times), -1, np.int64)
    starts = np.array([step.start_ns for step in timeline.steps], np.int64)
    ends = np.array([step.end_ns for step in timeline.steps], np.int64)
    numbers = np.array([step.number for step in timeline.steps], np.int64)
    place = np.maximum(np.searchsorted(starts, times, "right") - 1, 0)
    inside = (times >= starts[place]) & (times < ends[place])
    return np.where(inside, numbers[place], -1)
