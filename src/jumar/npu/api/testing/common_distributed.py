"""`torch_npu.testing.common_distributed`: process groups for tests."""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable
from typing import Any, NamedTuple

import torch.distributed as dist

from jumar.npu.runtime.control import current_device, device_count, is_available, set_device

__all__ = ["TestSkip", "init_pg", "skipIfUnsupportMultiNPU", "with_comms"]

Test = Callable[..., Any]


class TestSkip(NamedTuple):
    """Exit code and message of a rank that skips its test."""

    exit_code: int
    message: str


_NOT_ENOUGH, _NO_HCCL, _KNOWN = 75, 76, 77

TEST_SKIPS = {
    "multi-npu": TestSkip(_NOT_ENOUGH, "Multi-NPU condition not satisfied"),
    **{f"multi-npu-{n}": TestSkip(_NOT_ENOUGH, f"Need at least {n} ASCEND devices") for n in range(1, 9)},
    "hccl": TestSkip(_NO_HCCL, "c10d not compiled with HCCL support"),
    "known_issues": TestSkip(_KNOWN, "Test skipped due to known issues"),
}


def skipIfUnsupportMultiNPU(npu_number_needed: int) -> Callable[[Test], Test]:
    """Return a decorator that skips a test where fewer devices are visible."""

    def decorate(func: Test) -> Test:
        @functools.wraps(func)
        def test(*args: Any, **kwargs: Any) -> Any:
            if not is_available() or device_count() < npu_number_needed:
                raise unittest.SkipTest(f"Multi-NPU {npu_number_needed} condition not satisfied")
            return func(*args, **kwargs)

        return test

    return decorate


def init_pg(backend: str = "hccl", world_size: int = 1, rank: int = 0, file_name: str = "file://") -> None:
    """Initialise the default group through a file, on the device of the rank's number."""
    if backend == "hccl":
        set_device(rank)
    dist.init_process_group(backend, world_size=world_size, rank=rank, init_method=file_name)


def with_comms(func: Test) -> Test:
    """Decorate a test method: a group before it, none after, `self.device_type` where it runs."""
    if func is None:
        raise RuntimeError("Test function is None.")

    @functools.wraps(func)
    def test(self: Any, *args: Any, **kwargs: Any) -> Any:
        enough = is_available() and device_count() >= self.world_size
        self.device_type = "npu" if enough else "cpu"
        init_pg("hccl" if enough else "gloo", self.world_size, self.rank, f"file://{self.file_name}")
        try:
            result = func(self, *args, **kwargs)
            dist.barrier(device_ids=[current_device()] if enough else None)
        finally:
            dist.destroy_process_group()
        return result

    return test
