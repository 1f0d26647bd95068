"""The memory's history: stacks of blocks, actions of the allocator, files for pytorch.org/memory_viz."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.cuda import _memory_viz

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

MEMORY: Any = torch.npu.memory
SEGMENT = {
    "device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream", "segment_type",
    "segment_pool_id", "is_expandable", "frames", "blocks",
}  # fmt: skip
BLOCK = {"address", "size", "requested_size", "state", "frames"}
ENTRY = {"action", "addr", "size", "stream", "pool_id", "frames"}


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    gc.disable()  # what other tests left behind is freed later
    yield
    gc.enable()
    MEMORY._record_memory_history(None)


def made_here(num: int) -> torch.Tensor:
    return torch.ones(num, device="npu")


def names(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["name"] for frame in frames]


def test_the_history_tells_what_was_allocated_and_freed_and_where():
    MEMORY._record_memory_history()
    kept, freed = made_here(100), made_here(5_000_000)
    address, size = freed.untyped_storage(), freed.nbytes
    del address, freed
    found = MEMORY._snapshot()
    assert set(found) == {"segments", "device_traces"}
    assert len(found["device_traces"]) == torch.npu.device_count()
    entries = found["device_traces"][0]
    assert [(item["action"], item["size"]) for item in entries if item["action"] in ("alloc", "free_completed")] == [
        ("alloc", 400),
        ("alloc", size),
        ("free_completed", size),
    ]
    assert [item["action"] for item in entries][-3:] == ["free_requested", "free_completed", "snapshot"]
    for item in entries:
        assert set(item) == ENTRY
        assert item["action"] == "snapshot" or "made_here" in names(item["frames"]) or "free" in item["action"]
        assert not any("jumar/npu" in frame["filename"] for frame in item["frames"])
    blocks = [block for segment in found["segments"] for block in segment["blocks"] if block["frames"]]
    assert [block["requested_size"] for block in blocks] == [kept.nbytes]
    assert blocks[0]["frames"][0]["name"] == "made_here"


def test_a_snapshot_has_the_fields_that_are_documented():
    MEMORY._record_memory_history()
    x = made_here(3)
    for segment in MEMORY._snapshot()["segments"]:
        assert set(segment) == SEGMENT
        assert all(set(block) == BLOCK for block in segment["blocks"])
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    assert x.numel() == 3


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("all", (True, True, True)),
        ("alloc", (True, True, False)),
        ("state", (True, False, False)),
        (None, (False,) * 3),
    ],
)
def test_the_context_says_which_stacks_are_kept(context, expected):
    MEMORY._record_memory_history(context=context)
    x = made_here(7)
    y = made_here(9)
    del y
    found = MEMORY._snapshot()
    block = next(b for s in found["segments"] for b in s["blocks"] if b["requested_size"] == x.nbytes)
    entries = {item["action"]: item.get("frames") for item in found["device_traces"][0]}
    assert (bool(block["frames"]), bool(entries["alloc"]), bool(entries["free_requested"])) == expected


def test_the_history_is_as_long_as_asked_for_and_begins_anew():
    MEMORY._record_memory_history(max_entries=4)
    for _ in range(9):
        made_here(2)
    assert len(MEMORY._snapshot()["device_traces"][0]) == 4
    MEMORY._record_memory_history("state")
    made_here(2)
    assert len(MEMORY._snapshot()["device_traces"][0]) == 1
    MEMORY._record_memory_history(None)
    x = made_here(2)
    found = MEMORY._snapshot()
    assert found["device_traces"][0] == []
    assert not any(block["frames"] for segment in found["segments"] for block in segment["blocks"])
    assert x.numel() == 2


def test_an_allocation_that_fails_is_in_the_history():
    MEMORY._record_memory_history()
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(2**42, dtype=torch.uint8, device="npu")
    failed = [item for item in MEMORY._snapshot()["device_traces"][0] if item["action"] == "oom"]
    assert failed[0]["size"] >= 2**42
    assert failed[0]["device_free"] > 0
    assert "addr" not in failed[0]


def test_the_file_is_one_that_pytorchs_viewer_reads(tmp_path):
    MEMORY._record_memory_history()
    x, y = made_here(100), made_here(9_000_000)
    del y
    MEMORY._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    with (tmp_path / "snapshot.pickle").open("rb") as file:
        found = pickle.load(file)
    assert "<html" in _memory_viz.trace_plot(found)
    assert ":400.0B]" in _memory_viz.trace(found)
    assert _memory_viz.segsum(found)
    assert x.numel() == 100


def test_statistics_are_the_same_with_and_without_a_history():
    def figures() -> list[int]:
        before = torch.npu.memory_stats()
        held = [made_here(num) for num in (10, 300_000, 5_000_000)]
        del held[1]
        after = torch.npu.memory_stats()
        return [after[name] - before[name] for name in ("allocated_bytes.all.current", "allocation.all.allocated")]

    plain = figures()
    MEMORY._record_memory_history()
    assert figures() == plain


@pytest.mark.parametrize("wrong", [{"enabled": "some"}, {"context": "some"}, {"stacks": "c++"}])
def test_other_words_are_refused(wrong):
    with pytest.raises(RuntimeError, match="expected"):
        MEMORY._record_memory_history(**wrong)


def test_expandable_segments_map_and_unmap_pages():
    torch.npu.empty_cache()
    MEMORY._set_allocator_settings("expandable_segments:True")
    try:
        MEMORY._record_memory_history()
        x = made_here(6_000_000)
        del x
        torch.npu.empty_cache()
        actions = [item["action"] for item in MEMORY._snapshot()["device_traces"][0]]
    finally:
        MEMORY._set_allocator_settings("expandable_segments:False")
    assert [action for action in actions if "segment" in action] == ["segment_map", "segment_unmap"]
