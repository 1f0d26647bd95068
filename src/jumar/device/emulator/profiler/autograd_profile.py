"""`torch.autograd.profiler.profile(use_npu=True)`: the interface of the first releases of torch_npu.

Without `use_npu` the class is PyTorch's own. With it, `print(prof)` shows host and device columns and
`export_chrome_trace` writes the estimated trace.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from jumar.device.emulator.profiler.collected import Profile
from jumar.device.emulator.profiler.collector import Collector, Options
from jumar.device.emulator.profiler.executions import current_software
from jumar.device.emulator.profiler.experimental_config import AiCMetrics, ProfilerLevel
from jumar.device.emulator.profiler.files import write_chrome_trace
from jumar.device.emulator.profiler.table import table
from jumar.device.emulator.profiler.timeline import build
from jumar.device.emulator.state import STATE

_Original: Any = torch.autograd.profiler.profile


class profile(_Original):  # type: ignore[misc]
    """PyTorch's profiler with `use_npu`, `use_npu_simple` (only the operators of the device), both False by default."""

    def __init__(
        self, enabled: bool = True, *, use_npu: bool = False, use_npu_simple: bool = False, **kwargs: Any
    ) -> None:
        self.use_npu = bool(use_npu and enabled)
        self.use_npu_simple = use_npu_simple
        self.npu_profile: Profile | None = None
        self._npu_collector: Collector | None = None
        if self.use_npu:
            kwargs.setdefault("use_kineto", True)
        super().__init__(enabled, **kwargs)

    def __enter__(self) -> Any:
        entered = super().__enter__()
        if self.use_npu:
            self._npu_collector = Collector(Options(host=False, profile_memory=bool(self.profile_memory)))
            self._npu_collector.start()
        return entered

    def __exit__(self, *error: object) -> Any:
        collector, self._npu_collector = self._npu_collector, None
        watched = collector.stop() if collector is not None else None
        left = super().__exit__(*error)
        if watched is not None:
            watched.host_events = list(self.kineto_results.events())
            made = _empty(watched.epoch_ns + watched.start_ns, has_memory=bool(self.profile_memory))
            build(watched, STATE.profile, current_software(), made)
            self.npu_profile = made
        return left

    def __str__(self) -> str:
        if self.npu_profile is None:
            return str(super().__str__())
        return table(self.npu_profile, by_shape=bool(self.record_shapes), leaves_only=self.use_npu_simple)

    __repr__ = __str__

    def export_chrome_trace(self, path: str) -> Any:
        """Write the trace: with `use_npu` the estimated one of host and device."""
        if self.npu_profile is None:
            return super().export_chrome_trace(path)
        return write_chrome_trace(Path(path), self.npu_profile)


def _empty(epoch_ns: int, *, has_memory: bool) -> Profile:
    return Profile(
        epoch_ns=epoch_ns,
        soc=STATE.soc,
        level=ProfilerLevel.Level0,
        metrics=AiCMetrics.AiCoreNone,
        has_host=True,
        has_device=True,
        has_memory=has_memory,
        is_first_generation=STATE.profile.family == "A1",
    )


def install() -> None:
    """Put the class in the place of PyTorch's. Called once, when the backend comes up."""
    torch.autograd.profiler.profile = profile  # type: ignore[misc]
