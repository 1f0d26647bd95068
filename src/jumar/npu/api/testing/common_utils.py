"""`torch_npu.testing.common_utils`: tensors for tests, conditions to skip them, recorded times."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import statistics
import threading
import unittest
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jumar.npu.api.npu.utils import _is_gte_cann_version, get_cann_version
from jumar.npu.runtime.control import _sleep, set_device
from jumar.npu.runtime.properties import get_device_name
from jumar.npu.runtime.streams import Event

__all__ = [
    "Baseline",
    "SkipIfNoLapack",
    "SkipIfNotGteCANNVersion",
    "SkipIfNotRegistered",
    "SupportedDevices",
    "check_operators_in_prof",
    "create_common_tensor",
    "create_dtype_tensor",
    "dump_baseline",
    "freeze_rng_state",
    "get_cycles_per_ms",
    "get_npu_device",
    "is_iterable",
    "iter_indices",
    "set_npu_device",
    "test_2args_broadcast",
]

Tensor = torch.Tensor
Test = Callable[..., Any]

PERF_TEST_ENABLE = os.environ.get("PERF_TEST_ENABLE", "").upper() in {"ON", "1", "YES", "TRUE", "Y"}
PERF_BASELINE_FILE = os.environ.get("PERF_BASELINE_FILE", "performance_baseline.json")

_NUM_CYCLES = 1_000_000
_NUM_MEASURED = 10


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    """Put the state of the random generator back after the block."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


def iter_indices(tensor: Tensor) -> Any:
    """Return the indices of all elements: numbers for one dimension, tuples for more, none for none."""
    if tensor.dim() == 0:
        return range(0)
    if tensor.dim() == 1:
        return range(tensor.size(0))
    return product(*(range(size) for size in tensor.size()))


def is_iterable(obj: Any) -> bool:
    """Return whether `iter(obj)` works."""
    try:
        iter(obj)
    except TypeError:
        return False
    return True


def get_npu_device() -> str:
    """Return the device that the variable SET_NPU_DEVICE names, `npu:0` by default."""
    return f"npu:{os.environ.get('SET_NPU_DEVICE', '0')}"


def set_npu_device() -> str:
    """Make that device current and return it."""
    device = get_npu_device()
    set_device(device)
    return device


def create_common_tensor(
    item: Sequence[Any], minValue: float, maxValue: float, device: Any = None
) -> tuple[Tensor, Tensor]:
    """Return uniform numbers on the CPU and on the npu; `item` is a NumPy dtype, a format (-1 for none), a shape."""
    dtype, npu_format, shape = item[:3]  # some suites put more behind it, for themselves
    values = np.random.uniform(minValue, maxValue, shape).astype(dtype)
    return _on_both(values, npu_format, device)


def create_dtype_tensor(
    shape: Any,
    dtype: torch.dtype,
    npu_format: int = -1,
    min_value: float = -5,
    max_value: float = 5,
    no_zero: bool = False,
    device: Any = None,
) -> tuple[Tensor, Tensor]:
    """Return random numbers of a dtype on the CPU and on the npu; integers of any type come as int32."""
    if dtype == torch.bool:
        values: Any = np.random.randint(0, 2, size=shape).astype(bool)
    elif dtype in (torch.float16, torch.float32):
        kind = np.float16 if dtype == torch.float16 else np.float32
        values = np.random.uniform(min_value, max_value, shape).astype(kind)
    else:
        values = np.random.randint(int(min_value), int(max_value) + 1, size=shape).astype(np.int32)
    if no_zero:
        values = np.where(values != 0, values, np.ones_like(values))
    return _on_both(values, npu_format if dtype in (torch.float16, torch.float32) else -1, device)


def _on_both(values: Any, npu_format: int, device: Any) -> tuple[Tensor, Tensor]:
    cpu = torch.from_numpy(values)
    npu = cpu.to(get_npu_device() if device is None else device)
    return cpu, npu if npu_format == -1 else torch.ops.npu.npu_format_cast(npu, npu_format)


def test_2args_broadcast(fn: Callable[[Tensor, Tensor], Tensor]) -> list[list[Any]]:
    """Return the results of a function of two tensors, on the CPU and on the npu, for two shapes that broadcast."""
    results = []
    for other in ((1, 1, 1), (4, 5)):
        pairs = [_on_both(np.random.rand(*shape).astype(np.float32), -1, None) for shape in ((2, 3, 4, 5), other)]
        (cpu_x, npu_x), (cpu_y, npu_y) = pairs
        results.append([fn(cpu_x, cpu_y).numpy(), fn(npu_x, npu_y).cpu().numpy()])
    return results


def check_operators_in_prof(
    expected_operators: list[str], prof: Any, unexpected_operators: Sequence[str] | None = None
) -> bool | None:
    """Return whether a profile holds every expected operator and no unexpected one; None for an empty profile."""
    keys = {item.key.replace("cached_", "") for item in prof.key_averages()}
    if not keys:
        return None
    return not keys & set(unexpected_operators or ()) and set(expected_operators) <= keys


class SkipIfNoLapack:
    """Decorator: skip a test where PyTorch was built without LAPACK."""

    def __call__(self, fn: Test) -> Test:
        """Return the test with the condition."""
        return unittest.skipUnless(torch._C.has_lapack, "PyTorch compiled without Lapack")(fn)


class SkipIfNotRegistered:
    """Decorator of tests of Caffe2 operators, which no PyTorch of today has."""

    def __call__(self, message: str) -> Any:
        """Return a decorator that skips."""
        return unittest.skip(f"Cannot import `caffe2.python.core`: {message}")


class SupportedDevices:
    """Decorator: skip a test unless the SoC is one of these, e.g. `["Ascend910B"]`."""

    def __init__(self, supported_devices: list[str]) -> None:
        self.supported_devices = supported_devices

    def __call__(self, fn: Test) -> Test:
        """Return the test with the condition, which is asked when it runs."""

        @functools.wraps(fn)
        def test(self_: Any, *args: Any, **kwargs: Any) -> Any:
            family = _family(get_device_name(0))
            if family not in self.supported_devices:
                raise unittest.SkipTest(f"Only run on {self.supported_devices!r}, current device is {family}.")
            return fn(self_, *args, **kwargs)

        return test


def _family(name: str) -> str:
    if name.startswith("Ascend950"):
        return name[:9]
    return name[:12] if name.startswith("Ascend910_") else name[:10]


class SkipIfNotGteCANNVersion:
    """Decorator: skip a test unless CANN has this version or a later one."""

    def __init__(self, base_version: str, module: str = "CANN") -> None:
        self.base_version, self.module = base_version, module

    def __call__(self, fn: Test) -> Test:
        """Return the test with the condition, which is asked when it runs."""

        @functools.wraps(fn)
        def test(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if not _is_gte_cann_version(self.base_version, self.module):
                current = get_cann_version(self.module)
                raise unittest.SkipTest(
                    f"Only run on {self.base_version} or greater, current cann version is {current}."
                )
            return fn(self_, *args, **kwargs)

        return test


class Baseline:
    """Times of tests in a JSON file."""

    def __init__(self, baselineFile: str) -> None:
        self._file, self._mutex = Path(baselineFile), threading.Lock()
        self._baseline: dict[str, float] = {}
        if self._file.exists():
            self._baseline = json.loads(self._file.read_text(encoding="utf-8"))

    def get_baseline(self, resourceId: str) -> float | None:
        """Return the time of a test in seconds, or None."""
        return self._baseline.get(resourceId)

    def set_baseline(self, resourceId: str, baseline: float) -> None:
        """Keep the time of a test."""
        with self._mutex:
            self._baseline[resourceId] = baseline

    def save_baseline(self) -> None:
        """Write the file."""
        with self._mutex:
            self._file.write_text(json.dumps(self._baseline), encoding="utf-8")


PerfBaseline = Baseline(PERF_BASELINE_FILE)


def dump_baseline() -> None:
    """Write the recorded times where PERF_TEST_ENABLE asks for them."""
    if PERF_TEST_ENABLE:
        PerfBaseline.save_baseline()


@functools.cache
def get_cycles_per_ms() -> float:
    """Return how many cycles of `torch.npu._sleep` take a millisecond here, as measured: a mean without extremes."""
    measured = sorted(_cycles_per_ms() for _ in range(_NUM_MEASURED))
    return statistics.mean(measured[2:-2])


def _cycles_per_ms() -> float:
    start, end = Event(enable_timing=True), Event(enable_timing=True)
    start.record()
    _sleep(_NUM_CYCLES)
    end.record()
    return _NUM_CYCLES / start.elapsed_time(end)
