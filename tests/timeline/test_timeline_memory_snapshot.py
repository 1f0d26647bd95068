"""Snapshots of a caching allocator are read without running them; what an allocator did is told back."""

from __future__ import annotations

import os
import pickle
import pickletools
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.errors import InputError
from jumar.timeline.formats import memory_snapshot
from jumar.timeline.model.allocations import Allocations
from jumar.timeline.model.events import Timeline
from jumar.timeline.vendor.text import plain_pickle

SEGMENT = 1 << 20
ROUNDED = 16
"""Bytes that a block has more than was asked for."""
BEGIN_US = 1_700_000_000_000_000


class Allocator:
    """Writes entries as PyTorch's allocator does, and keeps its own account of who holds what."""

    def __init__(self) -> None:
        self.alive: dict[int, tuple[int, list[dict[str, Any]]]] = {}
        self.trace: list[dict[str, Any]] = []
        self.at = 0
        self.peak = 0
        self.owners: dict[str, int] = {}

    def _entry(self, action: str, address: int, size: int, frames: list[dict[str, Any]]) -> None:
        time = BEGIN_US + len(self.trace)
        self.trace.append(
            {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time, "frames": frames}
        )

    def take(self, size: int, line: int) -> int:
        frames = [
            {"filename": "/usr/lib/site-packages/torch/nn/linear.py", "line": 9, "name": "forward"},
            {"filename": "train.py", "line": line, "name": "step"},
        ]
        self.at += 512
        self._entry("alloc", self.at, size, frames)
        self.alive[self.at] = size, frames
        used = sum(size for size, _ in self.alive.values())
        if used > self.peak:
            self.peak, self.owners = used, {}
            for held, places in self.alive.values():
                name = f"train.py:{places[1]['line']}"
                self.owners[name] = self.owners.get(name, 0) + held
        return self.at

    def give_back(self, address: int) -> None:
        size, _ = self.alive.pop(address)
        self._entry("free_requested", address, size, [])
        self._entry("free_completed", address, size, [])

    def snapshot(self, first: int = 0) -> dict[str, Any]:
        """Return the snapshot, whose recording has lost the entries before `first`."""
        blocks = [
            {
                "address": address,
                "size": size + ROUNDED,
                "requested_size": size,
                "state": "active_allocated",
                "frames": frames,
            }
            for address, (size, frames) in self.alive.items()
        ]
        used = sum(size + ROUNDED for size, _ in self.alive.values())
        free = {"address": 1 << 40, "size": SEGMENT - used, "requested_size": 0, "state": "inactive", "frames": []}
        blocks.append(free)
        segment = {"device": 0, "address": 512, "total_size": SEGMENT, "allocated_size": used, "stream": 0,
                   "segment_type": "large", "blocks": blocks}  # fmt: skip
        settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False}
        return {"segments": [segment], "device_traces": [self.trace[first:]], "allocator_settings": settings}


@pytest.fixture
def allocator() -> Allocator:
    allocator, chance = Allocator(), random.Random(0)
    for _ in range(300):
        if allocator.alive and chance.random() < 0.45:
            allocator.give_back(chance.choice(list(allocator.alive)))
        else:
            allocator.take(chance.choice([64, 512, 2048]), chance.randrange(10, 14))
    return allocator


def stored(path: Path, content: object, protocol: int | None = None) -> Path:
    path.write_bytes(pickle.dumps(content, protocol))
    return path


def read(path: Path) -> Timeline:
    (source,) = memory_snapshot.find(path)
    return memory_snapshot.read(source)


def told(path: Path) -> Allocations:
    (allocations,) = read(path).allocations
    return allocations


@pytest.mark.parametrize("protocol", range(6))
def test_the_peak_and_its_owners_are_those_of_the_allocator(
    tmp_path: Path, allocator: Allocator, protocol: int
) -> None:
    path = stored(tmp_path / "memory.pickle", allocator.snapshot(), protocol)
    found = told(path)
    assert found.peak_bytes == allocator.peak
    assert {owner.name: owner.size_bytes for owner in found.owners} == allocator.owners
    assert found.allocated_bytes == sum(size + ROUNDED for size, _ in allocator.alive.values())
    assert found.reserved_bytes == SEGMENT
    assert found.fragmentation == pytest.approx(1 - found.allocated_bytes / SEGMENT)
    assert found.num_allocations == sum(entry["action"] == "alloc" for entry in allocator.trace)


def test_memory_over_time_is_a_counter(tmp_path: Path, allocator: Allocator) -> None:
    timeline = read(stored(tmp_path / "memory.pickle", allocator.snapshot()))
    memory = next(counter for counter in timeline.counters if counter.name == "memory cuda:0")
    assert memory.values.max() == allocator.peak
    assert memory.values[-1] == sum(size for size, _ in allocator.alive.values())
    assert memory.times_ns[:2].tolist() == [0, 1000]
    assert timeline.origin_ns == BEGIN_US * 1000
    assert timeline.lost == ()
    assert set(timeline.absent) == {"shapes", "stacks", "device", "host", "steps"}


@pytest.mark.parametrize("first", [1, 50, 150])
def test_a_recording_that_lost_its_begin_still_adds_up(tmp_path: Path, allocator: Allocator, first: int) -> None:
    found = told(stored(tmp_path / "memory.pickle", allocator.snapshot(first)))
    used = []
    for end in range(first, len(allocator.trace) + 1):
        alive: dict[int, int] = {}
        for entry in allocator.trace[:end]:
            if entry["action"] == "alloc":
                alive[entry["addr"]] = entry["size"]
            elif entry["action"] == "free_completed":
                alive.pop(entry["addr"])
        used.append(sum(alive.values()))
    assert found.peak_bytes == max(used)
    assert sum(owner.size_bytes for owner in found.owners) == found.peak_bytes


def test_entries_without_times_still_have_owners(tmp_path: Path, allocator: Allocator) -> None:
    content = allocator.snapshot()
    for entry in content["device_traces"][0]:
        del entry["time_us"]
    timeline = read(stored(tmp_path / "memory.pickle", content))
    assert timeline.counters == ()
    assert "times" in timeline.absent
    assert timeline.allocations[0].peak_bytes == allocator.peak


def test_a_recording_that_does_not_end_at_its_blocks_is_told(tmp_path: Path, allocator: Allocator) -> None:
    content = allocator.snapshot()
    content["device_traces"][0].append({"action": "alloc", "addr": 5, "size": 64, "time_us": BEGIN_US, "frames": []})
    (sentence,) = read(stored(tmp_path / "memory.pickle", content)).lost
    assert "bytes in use by its recording" in sentence


def test_memory_that_is_taken_again_is_counted(tmp_path: Path) -> None:
    allocator = Allocator()
    for _ in range(4):
        allocator.give_back(allocator.take(256, 7))
    allocator.take(256, 8)
    found = told(stored(tmp_path / "memory.pickle", allocator.snapshot()))
    assert (found.num_allocations, found.num_reallocations) == (5, 3)


def test_calls_of_the_device_and_its_refusals_are_counted(tmp_path: Path) -> None:
    allocator = Allocator()
    allocator._entry("segment_alloc", 512, SEGMENT, [])
    allocator.take(64, 1)
    allocator.trace.append({"action": "oom", "size": 1 << 40, "device_free": 5, "time_us": BEGIN_US + 9, "frames": []})
    allocator.trace.append({"action": "unheard of", "addr": 1, "size": 1})
    timeline = read(stored(tmp_path / "memory.pickle", allocator.snapshot()))
    (found,) = timeline.allocations
    assert (found.num_device_allocations, found.num_device_frees, found.num_out_of_memory) == (1, 0, 1)
    assert found.peak_reserved_bytes == SEGMENT
    assert found.peak_reserved_share == 64 / SEGMENT
    assert found.largest_free_bytes == SEGMENT - 64 - ROUNDED
    assert len(timeline.events) == 2
    assert len(timeline.lost) == 1


def test_one_moment_without_a_history_has_its_owners(tmp_path: Path, allocator: Allocator) -> None:
    content = allocator.snapshot() | {"device_traces": [[]]}
    timeline = read(stored(tmp_path / "memory.pickle", content))
    (found,) = timeline.allocations
    assert found.peak_bytes == sum(owner.size_bytes for owner in found.owners)
    assert found.allocated_bytes == found.peak_bytes + ROUNDED * len(allocator.alive)
    assert found.peak_ns is None
    assert "history" in timeline.absent


@pytest.mark.slow  # imports torch
def test_pytorchs_own_viewer_understands_the_snapshots_of_this_test(allocator: Allocator) -> None:
    from torch.cuda import _memory_viz

    assert f"{len(allocator.trace)} entries" in _memory_viz.trace(allocator.snapshot())
    assert "total_reserved: 1.0MiB" in _memory_viz.segsum(allocator.snapshot())


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("was_run",)


@pytest.mark.parametrize("value", [Evil(), Fraction(1, 3), Path("a"), print, {"segments": [Evil()]}])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_what_is_more_than_plain_values_is_refused_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: object, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(plain_pickle.NotPlainError, match="more than plain values"):
        plain_pickle.load(pickle.dumps(value, protocol))
    assert list(tmp_path.iterdir()) == []


def test_the_refusal_is_one_sentence(tmp_path: Path) -> None:
    path = stored(tmp_path / "memory.pickle", {"segments": [Evil()]})
    with pytest.raises(InputError, match=r"asks for (STACK_)?GLOBAL at byte \d+, which is more than plain values"):
        read(path)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**400), 2**400) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner) | st.sets(st.integers())
    ),
    max_leaves=20,
)


@pytest.mark.slow  # a hundred values
@given(value=PLAIN, protocol=st.integers(2, 5))
def test_plain_values_are_what_pickle_reads(value: object, protocol: int) -> None:
    content = pickle.dumps(value, protocol)
    names = {code.name for code, _, _ in pickletools.genops(content)}
    if names & {"REDUCE", "GLOBAL", "STACK_GLOBAL"}:  # bytes and sets of old protocols are calls
        with pytest.raises(plain_pickle.NotPlainError):
            plain_pickle.load(content)
    else:
        assert plain_pickle.load(content) == value


@given(content=st.binary(max_size=200))
def test_no_bytes_at_all_raise_anything_else(content: bytes) -> None:
    try:
        plain_pickle.load(content)
    except plain_pickle.NotPlainError:
        return


def test_a_bomb_stays_small() -> None:
    for bomb in (b"\x80\x04X\xff\xff\xff\x7f.", b"\x80\x04\x8d" + b"\xff" * 8 + b".", b"\x80\x04\x8b\xff\xff\xff\x7f.",
                 b"\x80\x04]r\xff\xff\xff\xff."):  # fmt: skip
        try:
            plain_pickle.load(bomb)
        except plain_pickle.NotPlainError:
            continue
        assert bomb.endswith(b"r\xff\xff\xff\xff.")  # a far place of the memo costs nothing here
