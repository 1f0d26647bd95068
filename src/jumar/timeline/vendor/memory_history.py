"""`History`: what a caching allocator recorded, replayed: how much was in use when, and who held it at the peak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jumar.timeline.model.allocations import Allocations
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Kind, Lane
from jumar.timeline.vendor import words
from jumar.timeline.vendor.files.memory import owners
from jumar.timeline.vendor.text.losses import Losses

BEFORE = "(taken before the recording)"
NO_FRAME = "(no frame was recorded)"
_TAKES, _GIVES_BACK = "alloc", "free_completed"
_RESERVES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_CALLS = {"segment_alloc": "segment_alloc", "segment_free": "segment_free", "oom": "out of memory"}
_KNOWN = frozenset({_TAKES, _GIVES_BACK, *_RESERVES, "free_requested", "free", "oom", "snapshot", "workspace_snapshot"})
_FURTHEST = 2**60

Entry = Mapping[str, Any]
Block = tuple[str, int]
"""Owner and size in bytes."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The state after one entry of the recording."""

    place: int
    entry: Entry
    time_ns: int | None
    used: int
    reserved: int


@dataclass(slots=True)
class History:
    """One device of a snapshot: its segments at the end, and the entries that led there."""

    device: str
    """`cuda:0`."""
    segments: Sequence[Entry]
    trace: Sequence[Entry]
    counts: Counter[str] = field(default_factory=Counter)
    num_again: int = 0
    _owners: dict[int, str] = field(default_factory=dict)

    def replay(self, builder: TimelineBuilder, losses: Losses, file: str) -> Allocations:
        """Count memory over time in `builder`, and return who held the peak; times absolute."""
        trace = [entry for entry in self.trace if _is_sound(entry)]
        losses.read(file, len(trace))
        for _ in range(len(self.trace) - len(trace)):
            losses.passed_over(file, "their action, address or size is not known")
        used, reserved = self._at_the_end()
        begin = self._at_the_begin(trace)
        first = sum(size for _, size in begin.values())
        peak, peak_ns, peak_place, peak_reserved = first, None, -1, self._reserved_before(trace, reserved)
        last = first
        for moment in self._moments(trace, begin, peak_reserved):
            self._count(builder, moment)
            peak_reserved = max(peak_reserved, moment.reserved)
            if moment.used > peak:
                peak, peak_ns, peak_place = moment.used, moment.time_ns, moment.place
            last = moment.used
        asked = sum(_asked(block) for block in self._blocks() if _is_in_use(block))
        if last != asked:
            losses.disagree(f"{file}: {self.device} has {last} bytes in use by its recording, {asked} by its blocks.")
        held = self._held(trace[: peak_place + 1], begin)
        return Allocations(
            device=self.device, peak_bytes=peak, peak_ns=peak_ns, owners=owners(held.values()), allocated_bytes=used,
            reserved_bytes=reserved, peak_reserved_bytes=peak_reserved, largest_free_bytes=self._largest_free(),
            num_allocations=self.counts[_TAKES], num_reallocations=self.num_again,
            num_device_allocations=self.counts["segment_alloc"] + self.counts["segment_map"],
            num_device_frees=self.counts["segment_free"] + self.counts["segment_unmap"],
            num_out_of_memory=self.counts["oom"],
        )  # fmt: skip

    def _at_the_end(self) -> tuple[int, int]:
        """Return the bytes in use and reserved at the end."""
        return (
            sum(_whole(block.get("size")) for block in self._blocks() if _is_in_use(block)),
            sum(_whole(segment.get("total_size")) for segment in self.segments),
        )

    def _blocks(self) -> Iterator[Entry]:
        for segment in self.segments:
            blocks = segment.get("blocks")
            yield from (block for block in blocks if isinstance(block, dict)) if isinstance(blocks, list) else ()

    def _addressed(self) -> Iterator[tuple[int, Entry]]:
        """Yield the blocks with their addresses; older snapshots give only the segment's."""
        for segment in self.segments:
            at, blocks = _whole(segment.get("address")), segment.get("blocks")
            for block in blocks if isinstance(blocks, list) else ():
                if isinstance(block, dict):
                    yield _whole(block.get("address")) or at, block
                    at += _whole(block.get("size"))

    def _at_the_begin(self, trace: Sequence[Entry]) -> dict[int, Block]:
        """Return the blocks in use before the first entry.

        What is given back before it is taken was there already, and so was what no entry names and is there at the end.
        """
        named: set[int] = set()
        found: dict[int, Block] = {}
        for entry in trace:
            if entry["action"] in (_TAKES, _GIVES_BACK) and entry["addr"] not in named:
                named.add(entry["addr"])
                if entry["action"] == _GIVES_BACK:
                    found[entry["addr"]] = BEFORE, entry.get("size", 0)
        for address, block in self._addressed():
            if _is_in_use(block) and address not in named:
                found[address] = self._owner(_frames(block), BEFORE), _asked(block)
        return found

    @staticmethod
    def _reserved_before(trace: Sequence[Entry], reserved: int) -> int:
        changes: int = sum(_RESERVES.get(entry["action"], 0) * entry.get("size", 0) for entry in trace)
        return reserved - changes

    def _moments(self, trace: Sequence[Entry], begin: Mapping[int, Block], reserved: int) -> Iterator[Moment]:
        alive, used = dict(begin), sum(size for _, size in begin.values())
        freed: Counter[Block] = Counter()
        for place, entry in enumerate(trace):
            action, address, size = entry["action"], entry.get("addr", 0), entry.get("size", 0)
            self.counts[action] += 1
            if action == _TAKES:
                block = self._owner(_frames(entry), NO_FRAME), size
                used += size - alive.get(address, ("", 0))[1]
                alive[address] = block
                self.num_again += freed[block] > 0
                freed[block] -= freed[block] > 0
            elif action == _GIVES_BACK and address in alive:
                block = alive.pop(address)
                used -= block[1]
                freed[block] += 1
            reserved += _RESERVES.get(action, 0) * size
            time = entry.get("time_us")
            yield Moment(place, entry, _whole(time) * 1000 if _is_size(time) else None, used, reserved)

    def _held(self, trace: Sequence[Entry], begin: Mapping[int, Block]) -> dict[int, Block]:
        """Return the blocks in use after some entries."""
        alive = dict(begin)
        for entry in trace:
            if entry["action"] == _TAKES:
                alive[entry["addr"]] = self._owner(_frames(entry), NO_FRAME), entry.get("size", 0)
            elif entry["action"] == _GIVES_BACK:
                alive.pop(entry["addr"], None)
        return alive

    def _count(self, builder: TimelineBuilder, moment: Moment) -> None:
        if moment.time_ns is None:
            return
        builder.count(f"memory {self.device}", "bytes", moment.time_ns, moment.used)
        builder.count(f"reserved {self.device}", "bytes", moment.time_ns, moment.reserved)
        call = _CALLS.get(moment.entry["action"])
        if call:
            lane = builder.lane(Lane("caching allocator", "Python", "host"))
            builder.add(moment.time_ns, 0, Kind.RUNTIME, builder.name(call), lane)

    def _owner(self, frames: Sequence[Any], without: str) -> str:
        """Return the user's innermost line, or the innermost of all; frames of one call are one list in the file."""
        if not frames:
            return without
        if id(frames) not in self._owners:
            places = [
                (str(frame.get("filename", "")), _whole(frame.get("line")))
                for frame in frames
                if isinstance(frame, dict)
            ]
            innermost = f"{places[0][0]}:{places[0][1]}" if places else without
            self._owners[id(frames)] = words.users_place(places) or innermost
        return self._owners[id(frames)]

    def _largest_free(self) -> int:
        return max(
            (_whole(block.get("size")) for block in self._blocks() if block.get("state") == "inactive"), default=0
        )


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _FURTHEST


def _whole(value: Any) -> int:
    return value if _is_size(value) else 0


def _asked(block: Entry) -> int:
    """Return the bytes that the program asked for, as the entries of a recording tell them; a block is rounded up."""
    return _whole(block.get("requested_size", block.get("size")))


def _is_sound(entry: Any) -> bool:
    """Return whether an entry is understood; what ran out of memory has no address."""
    if not isinstance(entry, dict) or entry.get("action") not in _KNOWN or not _is_size(entry.get("size", 0)):
        return False
    return _is_size(entry.get("addr")) or entry["action"] not in (_TAKES, _GIVES_BACK)


def _is_in_use(block: Entry) -> bool:
    return str(block.get("state", "")).startswith("active")


def _frames(entry: Entry) -> Sequence[Any]:
    frames = entry.get("frames")
    if frames is None and isinstance(entry.get("history"), list) and entry["history"]:
        first = entry["history"][0]
        frames = first.get("frames") if isinstance(first, dict) else None
    return frames if isinstance(frames, list) else ()
