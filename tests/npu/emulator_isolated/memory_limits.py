"""Running out of memory: the NPU's error before the host allocates, and what a script can do about it."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

from jumar.base import host
from jumar.device import DevicePlan, activate, emulate
from jumar.npu.memory import host_memory, memory

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


MIB = 2**20


@pytest.fixture(autouse=True)
def small_device():
    gc.collect()
    with emulate(memory_bytes=256 * MIB, numerics="exact", unsupported="fallback"):
        yield


def test_the_error_says_what_the_vendors_says():
    x = torch.empty(100 * MIB, dtype=torch.uint8, device="npu")
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(200 * MIB, dtype=torch.uint8, device="npu")
    assert str(caught.value) == (
        "NPU out of memory. Tried to allocate 202.00 MiB (NPU 0; 256.00 MiB total capacity; 100.00 MiB already "
        "allocated; 100.00 MiB current active; 154.00 MiB free; 102.00 MiB reserved in total by PyTorch).If reserved "
        "memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation."
    )
    del x


def test_sizes_beyond_all_memory_are_not_told():
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate more than 1EB memory"):
        torch.empty(2**60, dtype=torch.uint8, device="npu")


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(2**40, device="npu"),
        lambda: torch.zeros(2**20, 2**20, device="npu"),
        lambda: torch.full((2**40,), 1.0, device="npu"),
        lambda: torch.randn(2**38, device="npu", dtype=torch.float16),
        lambda: torch.empty_strided((2**20, 2**20), (2**20, 1), device="npu"),
        lambda: torch.UntypedStorage(2**42, device="npu"),
    ],
    ids=["empty", "zeros", "full", "randn", "empty_strided", "storage"],
)
def test_factories_fail_before_the_host_allocates(make):
    # Terabytes: the host would refuse these itself, with another error, or the kernel would end the process.
    with pytest.raises(torch.OutOfMemoryError, match="NPU out of memory"):
        make()
    assert torch.npu.memory_allocated() == 0


def test_a_result_that_does_not_fit_leaves_nothing_behind():
    x = torch.ones(40 * MIB, device="npu")
    before = torch.npu.memory_allocated()
    for _ in range(3):
        with pytest.raises(torch.OutOfMemoryError):
            x + x
    stats = torch.npu.memory_stats()
    assert (torch.npu.memory_allocated(), stats["num_ooms"], stats["num_alloc_retries"]) == (before, 3, 3)
    assert (x[:10] + 1).tolist() == [2.0] * 10


def test_copying_what_does_not_fit_fails():
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(300 * MIB, dtype=torch.uint8).to("npu")
    with pytest.raises(torch.OutOfMemoryError):
        nn.Linear(10_000, 10_000).npu()


def test_a_script_that_halves_its_batch_gets_through():
    model = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 8)).npu()

    def step(batch_size: int) -> None:
        model(torch.ones(batch_size, 256, device="npu")).sum().backward()

    batch_size, tried = 2**15, []
    while True:
        tried.append(batch_size)
        try:
            step(batch_size)
            break
        except torch.OutOfMemoryError:
            batch_size //= 2
            model.zero_grad()
    assert (len(tried) > 1, 2**10 <= batch_size < 2**15) == (True, True)
    step(batch_size)


def test_the_cache_is_given_back_before_memory_is_out():
    x = torch.empty(200 * MIB, dtype=torch.uint8, device="npu")
    del x
    y = torch.empty(150 * MIB, dtype=torch.uint8, device="npu")
    del y
    z = torch.empty(220 * MIB, dtype=torch.uint8, device="npu")
    stats = torch.npu.memory_stats()
    assert (stats["num_alloc_retries"], stats["num_ooms"]) == (1, 0)
    del z


def test_a_fraction_is_enforced_and_named():
    torch.npu.set_per_process_memory_fraction(0.25)
    assert torch.npu.get_per_process_memory_fraction() == 0.25
    with pytest.raises(torch.OutOfMemoryError, match=r"256.00 MiB free; 64.00 MiB allowed; 0 bytes reserved"):
        torch.empty(64 * MIB, dtype=torch.uint8, device="npu")
    torch.npu.set_per_process_memory_fraction(1.0)
    assert torch.empty(64 * MIB, dtype=torch.uint8, device="npu").nbytes == 64 * MIB
    with pytest.raises(ValueError, match="Allowed range: 0~1"):
        torch.npu.set_per_process_memory_fraction(1.5)
    with pytest.raises(TypeError, match="must be `float`"):
        torch.npu.set_per_process_memory_fraction(1)


def test_many_small_tensors_fill_the_device_too():
    kept = []

    def fill() -> None:
        while True:
            kept.append(torch.empty(MIB // 2, dtype=torch.uint8, device="npu"))

    with pytest.raises(torch.OutOfMemoryError):
        fill()
    assert 380 <= len(kept) <= 400
    kept.clear()
    assert torch.npu.memory_allocated() == 0


def test_a_machine_smaller_than_the_npu_is_named(monkeypatch):
    small = host.Memory(total_bytes=10_000 * MIB, available_bytes=50 * MIB)
    monkeypatch.setattr(host, "memory", lambda: small)
    with pytest.raises(host_memory.HostMemoryError, match="keeps its tensors in this machine's memory"):
        torch.empty(100 * MIB, dtype=torch.uint8, device="npu")
    x = torch.ones(16 * MIB, dtype=torch.float32)
    with pytest.raises(MemoryError, match=r"has 50 MiB of 9.77 GiB left"):
        memory.track(x.clone().expand(2, -1).reshape(-1))
    assert torch.npu.memory_stats()["num_ooms"] == 0
