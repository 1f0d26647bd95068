"""The simulated caching allocator: rounding, splitting, merging, giving back, and the fast replay of logs."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.npu.memory.allocator import AllocatorConfig, CachingAllocator, Chunk, DoesNotFitError, parse, replay

MIB = 2**20


def allocator(capacity_bytes: int = 2**40, options: str = "") -> CachingAllocator:
    return CachingAllocator(capacity_bytes, parse(options))


def layout(device: CachingAllocator) -> list[list[tuple[int, bool]]]:
    """Sizes of the chunks of each segment, and whether they are used."""
    return [[(chunk.size, bool(chunk.used)) for chunk in chunks] for chunks in device.segments()]


@pytest.mark.parametrize(
    ("requested", "taken", "reserved"),
    [
        (1, 512, 2 * MIB),
        (480, 512, 2 * MIB),
        (481, 1024, 2 * MIB),
        (MIB - 32, MIB, 2 * MIB),
        (MIB, MIB + 512, 20 * MIB),
        (10 * MIB - 544, 10 * MIB - 512, 20 * MIB),
        (10 * MIB - 32, 10 * MIB, 10 * MIB),
        (10 * MIB, 10 * MIB + 512, 12 * MIB),
    ],
)
def test_a_request_is_padded_rounded_and_cut_from_a_segment_of_its_class(requested, taken, reserved):
    device = allocator()
    chunk = device.malloc(requested)
    assert (chunk.size, device.reserved) == (taken, reserved)


def test_a_chip_without_padding_takes_512_bytes_for_512():
    device = CachingAllocator(2**40, AllocatorConfig(), padding=0)
    assert device.malloc(512).size == 512


def test_neighbours_merge_when_they_are_freed():
    device = allocator()
    chunks = [device.malloc(1000) for _ in range(3)]
    device.free(chunks[0])
    device.free(chunks[2])
    assert layout(device) == [[(1536, False), (1536, True), (2 * MIB - 3072, False)]]
    device.free(chunks[1])
    assert layout(device) == [[(2 * MIB, False)]]


def test_the_smallest_sufficient_chunk_serves_a_request():
    device = allocator()
    large, _, small, _ = (device.malloc(size) for size in (4000, 100, 2000, 100))
    device.free(large)
    device.free(small)
    assert device.malloc(1900).address == small.address


def test_a_large_chunk_is_split_only_when_more_than_1_mib_remains():
    device = allocator()
    first = device.malloc(20 * MIB - 32)
    device.free(first)
    assert device.malloc(19 * MIB - 32).size == 20 * MIB


def test_emptying_the_cache_gives_unsplit_segments_back():
    device = allocator()
    kept, freed = device.malloc(100), device.malloc(30 * MIB)
    device.free(freed)
    device.empty_cache()
    assert (device.reserved, layout(device)) == (2 * MIB, [[(512, True), (2 * MIB - 512, False)]])
    device.free(kept)
    device.empty_cache()
    assert (device.reserved, layout(device)) == (0, [])


def test_a_full_device_gives_its_cache_back_and_tries_again():
    device = allocator(32 * MIB)
    device.free(device.malloc(20 * MIB - 32))
    assert device.malloc(30 * MIB - 32).size == 30 * MIB
    assert (device.stats.num_alloc_retries, device.stats.num_ooms) == (1, 0)


def test_what_does_not_fit_is_refused_and_changes_nothing():
    device = allocator(32 * MIB)
    device.malloc(100)
    before = layout(device)
    assert not device.fits(31 * MIB)
    with pytest.raises(DoesNotFitError) as caught:
        device.malloc(31 * MIB)
    assert (caught.value.size_bytes, layout(device), device.stats.num_ooms) == (32 * MIB, before, 1)


def test_a_fraction_limits_what_may_be_reserved():
    device = allocator(64 * MIB)
    device.allowed_bytes = 16 * MIB
    with pytest.raises(DoesNotFitError):
        device.malloc(16 * MIB)


def test_oversize_chunks_are_not_split_with_max_split_size():
    device = allocator(options="max_split_size_mb:20")
    device.free(device.malloc(100 * MIB - 32))
    small = device.malloc(12 * MIB - 32)
    assert (small.size, device.reserved) == (12 * MIB, 112 * MIB)
    assert device.malloc(90 * MIB).size == 100 * MIB


def test_oversize_chunks_are_given_back_before_the_whole_cache():
    device = allocator(140 * MIB, "max_split_size_mb:20")
    for chunk in [device.malloc(size * MIB - 32) for size in (60, 60, 10)]:
        device.free(chunk)
    device.malloc(110 * MIB - 32)
    assert (device.reserved, device.stats.num_alloc_retries) == (120 * MIB, 0)


def test_garbage_is_collected_above_the_threshold():
    device = allocator(128 * MIB, "garbage_collection_threshold:0.25")
    device.allowed_bytes = 128 * MIB
    device.free(device.malloc(40 * MIB - 32))
    device.malloc(60 * MIB - 32)
    assert device.reserved == 60 * MIB


def test_an_expandable_segment_grows_by_pages_and_leaves_no_gap():
    device = allocator(options="expandable_segments:True")
    first = device.malloc(30 * MIB - 32)
    assert device.reserved == 40 * MIB
    device.free(first)
    assert device.malloc(50 * MIB - 32).address == first.address
    assert (device.reserved, len(layout(device))) == (60 * MIB, 1)


def test_pages_of_an_expandable_segment_are_given_back_one_by_one():
    device = allocator(options="expandable_segments:True")
    first, second, third = (device.malloc(40 * MIB - 32) for _ in range(3))
    device.free(second)
    device.empty_cache()
    assert device.reserved == 80 * MIB
    device.free(first)
    device.free(third)
    device.empty_cache()
    assert (device.reserved, layout(device)) == (0, [])


@pytest.mark.parametrize(
    ("size", "taken"),
    [(1000 * MIB - 32, 1024 * MIB), (600 * MIB - 32, 640 * MIB), (1024 * MIB - 32, 1024 * MIB)],
)
def test_sizes_are_rounded_up_to_parts_of_a_power_of_two(size, taken):
    assert allocator(options="roundup_power2_divisions:4").malloc(size).size == taken


def test_divisions_are_given_by_size():
    config = parse("roundup_power2_divisions:[256:1,512:2,>:8]")
    assert [config.roundup_divisions(size * MIB) for size in (1, 256, 512, 1024)] == [1, 1, 2, 8]


def test_powers_that_are_left_out_are_not_divided():
    """The table is that of a comment in Ascend/pytorch's `test_roundup_power2_divisions.py`."""
    config = parse("roundup_power2_divisions:[8:1,64:4,128:8,256:2,>:16]")
    assert [config.roundup_divisions(MIB << power) for power in range(11)] == [1, 1, 1, 1, 0, 0, 4, 8, 2, 16, 16]


@pytest.mark.parametrize(
    ("options", "page"), [("segment_size_mb:128", 128), ("large_segment_size_mb:64", 64), ("", 20)]
)
def test_expandable_segments_grow_by_the_size_that_is_asked_for(options, page):
    device = allocator()
    device.configure(parse(f"expandable_segments:True,{options}"))
    device.malloc(8 * MIB)
    assert device.reserved == page * MIB


def test_a_segment_size_is_for_expandable_segments_only():
    device = allocator(options="segment_size_mb:128")
    device.malloc(8 * MIB)
    assert device.reserved == 20 * MIB


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("pin_memory_expandable_segments:1", ValueError, "Expected 'True' or 'False' for pin_memory"),
        ("max_split_size_mb:19", RuntimeError, "too small, must be >= 20"),
        ("max_split_size_mb:big", RuntimeError, "is invalid"),
        ("garbage_collection_threshold:1.5", RuntimeError, r"set it in \(0.0, 1.0\)"),
        ("expandable_segments:yes", ValueError, "Expected 'True' or 'False'"),
        ("expandable_segments:True,max_split_size_mb:64", RuntimeError, "cannot be enabled with `expandable_segments`"),
        ("segment_size_mb:600", RuntimeError, r"must be \[20, 512\]"),
        ("no_such_option:1", ValueError, "Unrecognized key 'no_such_option'"),
        ("max_split_size_mb", RuntimeError, "expecting max_split_size_mb value"),
        ("roundup_power2_divisions:3", RuntimeError, "has to be power of 2"),
    ],
)
def test_options_are_checked(text, kind, message):
    with pytest.raises(kind, match=message):
        parse(text)


def test_options_are_read_with_spaces_and_in_any_order():
    config = parse(" garbage_collection_threshold : 0.8 , max_split_size_mb:64, page_size:1g ")
    assert (config.max_split_bytes, config.garbage_collection_threshold, config.is_plain) == (64 * MIB, 0.8, False)


def test_sums_and_peaks_begin_again():
    device = allocator()
    device.free(device.malloc(5000))
    device.malloc(100)
    device.stats.reset_peak()
    device.stats.reset_sums()
    device.free(device.malloc(100))
    figures = device.stats.figures(0)
    assert figures["all"] == {"current": 1, "peak": 2, "allocated": 1, "freed": 1}
    assert figures["small_pool"] == figures["all"]


@dataclass(eq=False)
class Event:
    size_bytes: int
    chunk: Chunk | None = None
    place: object = None


SIZES = (1, 480, 481, 4000, 70_000, MIB - 32, MIB, 3 * MIB, 9 * MIB, 11 * MIB, 50 * MIB)


def lives(seed: int, num: int) -> list[Event]:
    """A log in which every event stands where its storage begins and where it ends."""
    chance = random.Random(seed)
    log: list[Event] = []
    alive: list[Event] = []
    for _ in range(num):
        event = Event(chance.choice(SIZES))
        log.append(event)
        alive.append(event)
        while alive and chance.random() < 0.45:
            log.append(alive.pop(chance.randrange(len(alive))))
    return log


def follow(device: CachingAllocator, log: list[Event], fast: bool) -> None:
    for event in log:
        event.chunk = None
    position = 0
    while position < len(log):
        reached = position
        if fast:
            reached = replay(device, True, log, position)
            reached = replay(device, False, log, reached)
        if reached == position:
            event = log[position]
            if event.chunk is None:
                event.chunk = device.malloc(event.size_bytes)
            else:
                device.free(event.chunk)
            reached += 1
        position = reached


def state(device: CachingAllocator) -> tuple[object, ...]:
    chunks = [[(chunk.address, chunk.size, bool(chunk.used)) for chunk in found] for found in device.segments()]
    stats = device.stats
    return chunks, stats.small.values, stats.large.values, stats.peaks, device.reserved, stats.num_device_alloc


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 300))
def test_the_fast_replay_does_what_single_calls_do(seed, num):
    log = lives(seed, num)
    one, other = allocator(), allocator()
    follow(one, log, fast=True)
    follow(other, log, fast=False)
    assert state(one) == state(other)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 200), st.sampled_from(["", "expandable_segments:True"]))
def test_chunks_always_fill_their_segments_and_add_up(seed, num, options):
    device = allocator(options=options)
    follow(device, lives(seed, num), fast=False)
    total = used = 0
    for chunks in device.segments():
        for first, second in itertools.pairwise(chunks):
            assert first.address + first.size <= second.address
            assert first.used or second.used or first.address + first.size < second.address
        total += sum(chunk.size for chunk in chunks)
        used += sum(chunk.size for chunk in chunks if chunk.used)
    assert (total, used) == (device.reserved, device.stats.current(1))
    device.empty_cache()
    assert device.reserved - device.releasable() == device.reserved
