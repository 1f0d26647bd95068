"""`torch.npu`'s memory functions: what they count, in the vendor's keys and layout."""

from __future__ import annotations

import gc
import threading

import pytest
import torch

from jumar.device import DevicePlan, activate, emulate
from jumar.npu.memory import memory
from jumar.npu.runtime import memory as npu_memory

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


MIB = 2**20
KEYS = ("allocation", "segment", "active", "inactive_split")


@pytest.fixture(autouse=True)
def fresh():
    """A device of its own for each test: no cache, no history."""
    gc.collect()
    with emulate(memory_bytes=1024 * MIB, numerics="exact", unsupported="fallback"):
        yield


def test_statistics_have_the_vendors_keys():
    stats = torch.npu.memory_stats()
    expected = {
        f"{name}{unit}.{pool}.{figure}"
        for name in KEYS
        for unit in ("", "_bytes")
        for pool in ("all", "small_pool", "large_pool")
        for figure in ("current", "peak", "allocated", "freed")
    }
    renamed = {
        key.replace("allocation_bytes", "allocated_bytes").replace("segment_bytes", "reserved_bytes")
        for key in expected
    }
    assert renamed <= stats.keys()
    others = {
        key for key in stats if key.partition(".")[0] + "." not in {key.partition(".")[0] + "." for key in renamed}
    }
    assert {key.partition(".")[0] for key in others} == {
        "max_split_size",
        "num_alloc_retries",
        "num_device_alloc",
        "num_device_free",
        "num_oom_rejections",
        "num_ooms",
        "num_sync_all_streams",
        "oversize_allocations",
        "oversize_segments",
        "requested_bytes",
    }


def test_a_tensor_is_counted_while_its_storage_lives():
    x = torch.empty(1000, device="npu")
    view = x[10:20]
    assert (torch.npu.memory_allocated(), torch.npu.memory_reserved()) == (4096, 2 * MIB)
    del x
    assert torch.npu.memory_allocated() == 4096
    del view
    assert (torch.npu.memory_allocated(), torch.npu.memory_reserved()) == (0, 2 * MIB)
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == 0


def test_peaks_and_sums():
    for _ in range(3):
        x = torch.empty(100, device="npu")
        del x
    stats = torch.npu.memory_stats()
    figures = [stats[f"allocated_bytes.all.{name}"] for name in ("current", "peak", "allocated", "freed")]
    assert figures == [0, 512, 1536, 1536]
    assert stats["requested_bytes.all.allocated"] == 1200
    torch.npu.reset_peak_memory_stats()
    torch.npu.reset_accumulated_memory_stats()
    stats = torch.npu.memory_stats()
    assert [stats[f"allocation.all.{name}"] for name in ("peak", "allocated")] == [0, 0]


def test_an_empty_tensor_takes_nothing():
    x = torch.empty(0, 5, device="npu")
    assert (torch.npu.memory_stats()["allocation.all.allocated"], x.shape) == (0, (0, 5))


def test_what_is_free_is_what_is_not_reserved():
    assert torch.npu.mem_get_info() == (1024 * MIB, 1024 * MIB)
    x = torch.empty(30 * MIB, dtype=torch.uint8, device="npu")
    assert torch.npu.mem_get_info() == (1024 * MIB - 32 * MIB, 1024 * MIB)
    del x


def test_every_thread_counts_on_the_same_device():
    def work() -> None:
        kept.append(torch.zeros(1000, device="npu"))

    kept: list[torch.Tensor] = []
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.npu.memory_allocated() == 8 * 4096


def test_the_snapshot_shows_segments_and_blocks():
    x = torch.empty(100, device="npu")
    (segment,) = torch.npu.memory_snapshot()
    assert {name: segment[name] for name in ("device", "total_size", "allocated_size", "requested_size")} == {
        "device": 0,
        "total_size": 2 * MIB,
        "allocated_size": 512,
        "requested_size": 400,
    }
    assert [(block["size"], block["state"]) for block in segment["blocks"]] == [
        (512, "active_allocated"),
        (2 * MIB - 512, "inactive"),
    ]
    assert segment["blocks"][1]["address"] - segment["address"] == 512
    del x


def test_the_summary_is_the_vendors_table():
    x = torch.empty(MIB, dtype=torch.uint8, device="npu")
    lines = torch.npu.memory_summary().splitlines()
    assert {len(line) for line in lines} == {77}
    assert lines[1] == "|                  PyTorch NPU memory summary, device ID 0                  |"
    assert lines[3] == "|            NPU OOMs: 0             |        npuMalloc retries: 0          |"
    assert lines[7] == "| Allocated memory      |    1024 KB |    1024 KB |    1024 KB |       0 B  |"
    assert len(torch.npu.memory_summary(abbreviated=True).splitlines()) == len(lines) - 16
    del x


def test_old_names_warn_and_answer():
    x = torch.empty(100, device="npu")
    with pytest.warns(DeprecationWarning, match="renamed to torch_npu.npu.memory_reserved"):
        assert npu_memory.memory_cached() == 2 * MIB
    with pytest.warns(DeprecationWarning, match="resets /all/ peak"):
        npu_memory.reset_max_memory_allocated()
    del x


def test_a_charged_tensor_counts_with_its_padding():
    x = torch.ones(100, device="npu")
    memory.charge(x, 5000)
    stats = torch.npu.memory_stats()
    assert (torch.npu.memory_allocated(), stats["requested_bytes.all.current"]) == (5120, 5000)
    assert stats["allocation.all.allocated"] == 1
    with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 2\.00 GiB"):
        memory.charge(x, 2048 * MIB)
    assert torch.npu.memory_allocated() == 5120
    del x
    assert torch.npu.memory_allocated() == 0


def test_a_private_pool_keeps_its_memory_until_it_is_dropped():
    pool = npu_memory.MemPool()
    with npu_memory.use_mem_pool(pool):
        x = torch.ones(1000, device="npu")
        assert pool.use_count() == 2
    y = torch.ones(1000, device="npu")
    assert [segment["segment_pool_id"] for segment in pool.snapshot()] == [pool.id]
    assert len(npu_memory.memory_snapshot()) == 2
    del x, y
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == 2 * MIB
    del pool
    gc.collect()
    assert torch.npu.memory_reserved() == 0


def test_a_pool_without_splitting_keeps_whole_segments():
    pool = npu_memory.MemPool(no_split=True)
    with npu_memory.use_mem_pool(pool):
        kept = [torch.ones(10, device="npu") for _ in range(2)]
    assert (torch.npu.memory_allocated(), len(pool.snapshot())) == (4 * MIB, 2)
    del kept


def test_a_pool_helps_out_when_the_device_is_full():
    pool = npu_memory.MemPool(use_on_oom=True)
    with npu_memory.use_mem_pool(pool):
        torch.empty(600 * MIB, dtype=torch.uint8, device="npu")
    x = torch.empty(500 * MIB, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_reserved() == 602 * MIB
    del x


def test_raw_memory_is_counted_until_it_is_deleted():
    address = npu_memory.caching_allocator_alloc(1000)
    assert torch.npu.memory_allocated() == 1536
    npu_memory.caching_allocator_delete(address)
    assert torch.npu.memory_allocated() == 0
    with pytest.raises(RuntimeError, match="invalid device pointer"):
        npu_memory.caching_allocator_delete(address)


def test_allocators_of_other_libraries_are_refused_in_a_sentence():
    with pytest.raises(NotImplementedError, match="has no meaning on the emulated NPU"):
        npu_memory.NPUPluggableAllocator("lib.so", "alloc", "free")
    with pytest.raises(NotImplementedError, match=r"use torch\.npu\.MemPool"):
        npu_memory.change_current_allocator(object())
    assert npu_memory.get_allocator_backend() == "native"


def test_expandable_segments_can_be_switched_while_running():
    npu_memory._set_allocator_settings("expandable_segments:True")
    x = torch.empty(30 * MIB, dtype=torch.uint8, device="npu")
    (segment,) = torch.npu.memory_snapshot()
    assert (segment["is_expandable"], segment["total_size"]) == (True, 40 * MIB)
    npu_memory._set_allocator_settings("expandable_segments:False")
    y = torch.empty(5 * MIB, dtype=torch.uint8, device="npu")
    assert [segment["is_expandable"] for segment in torch.npu.memory_snapshot()] == [True, False]
    del x, y
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == 0
    with pytest.raises(RuntimeError, match="unsupported setting: max_split_size_mb"):
        npu_memory._set_allocator_settings("max_split_size_mb:64")


def test_options_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("PYTORCH_NPU_ALLOC_CONF", "max_split_size_mb:64")
    with emulate(memory_bytes=512 * MIB, numerics="exact", unsupported="fallback"):
        assert torch.npu.memory_stats()["max_split_size"] == 64 * MIB
    monkeypatch.delenv("PYTORCH_NPU_ALLOC_CONF")
    with emulate(memory_bytes=256 * MIB, numerics="exact", unsupported="fallback"):
        assert torch.npu.memory_stats()["max_split_size"] == -1


def test_pinned_memory_has_statistics():
    before = npu_memory.host_memory_stats()["allocated_bytes.current"]
    pinned = torch.ones(300).pin_memory()
    assert npu_memory.host_memory_stats()["allocated_bytes.current"] - before == 2048
    del pinned
    assert npu_memory.host_memory_stats()["allocated_bytes.current"] == before
