"""`EmulatedDriver`: what Triton asks the driver of a chip: which device is current, its facts, how to time a kernel."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from jumar.npu.core.state import STATE

_CACHE_BYTES = 1 << 20
"""Memory that a benchmark clears between two calls. The emulated device has no cache that this would empty."""


@dataclass(frozen=True, slots=True)
class EmulatedDriver:
    """Stands in for `triton.backends.*.driver` of one device type. Compiling and launching are not its part."""

    device_type: str
    arch: int | str
    warp_size: int
    properties: Callable[[], dict[str, int]]

    @property
    def utils(self) -> SimpleNamespace:
        """What scripts read facts of the chip from."""
        return SimpleNamespace(get_device_properties=lambda _device: self.properties())

    def get_current_target(self) -> Any:
        """Return Triton's `GPUTarget` of the device."""
        target = importlib.import_module("triton.backends.compiler").GPUTarget
        return target(self.device_type, self.arch, self.warp_size)

    def get_device_interface(self) -> Any:
        """Return `torch.npu`, or `torch.cuda` on the stand-in for it."""
        return getattr(torch, self.device_type)

    def get_current_device(self) -> int:
        """Return the number of the current device."""
        return int(self.get_device_interface().current_device())

    def set_current_device(self, device: int) -> None:
        """Make another device the current one."""
        self.get_device_interface().set_device(device)

    def get_current_stream(self, device: int | None = None) -> int:
        """Return the handle of the current stream, which nothing here reads."""
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Return the current device."""
        return torch.device(self.device_type, self.get_current_device())

    def get_device_capability(self, _device: int | None = None) -> tuple[int, int]:
        """Return the capability where the device has such a number."""
        found: tuple[int, int] = self.get_device_interface().get_device_capability()
        return found

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return what the autotuner measures with."""
        return run_once

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """Return memory that `clear_cache` clears."""
        return torch.empty(_CACHE_BYTES, dtype=torch.int8, device=self.device_type)

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Clear the memory of `get_empty_cache_for_benchmark`."""
        cache.zero_()


def run_once(kernel_call: Callable[[], Any], quantiles: Sequence[float] | None = None, **_options: Any) -> Any:
    """Run a configuration once and give each the same time, so that the autotuner takes the first that runs.

    The interpreter's time says nothing of a chip, and a choice by it would differ between two runs that are compared.
    """
    kernel_call()
    return 1.0 if quantiles is None else [1.0] * len(quantiles)


def npu_properties() -> dict[str, int]:
    """Return the facts that triton-ascend's driver tells, by its names (`third_party/ascend/backend/driver.py`)."""
    cubes = STATE.profile.num_cube_cores or 1
    return {"max_shared_mem": 1, "num_aicore": cubes, "num_vectorcore": STATE.profile.num_vector_cores or 2 * cubes}


def activate(module: ModuleType, driver: EmulatedDriver) -> None:
    """Change `triton.runtime.driver`: Triton looks for no chip of its own."""
    if hasattr(module, "driver"):
        module.driver.set_active(driver)


def npu_driver() -> EmulatedDriver:
    """Return the driver of the emulated NPU."""
    return EmulatedDriver("npu", STATE.soc, 0, npu_properties)
