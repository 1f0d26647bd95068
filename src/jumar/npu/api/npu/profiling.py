"""The profiling interface of the first releases: `torch.npu.profile`, `prof_init` … `prof_finalize`, `iteration_start`.

    torch.npu.prof_init(folder)
    torch.npu.prof_start(config)
    for batch in loader:
        torch.npu.iteration_start()
        train_one_step(batch)
        torch.npu.iteration_end()
    torch.npu.prof_stop()
    torch.npu.prof_finalize()

They write the same files as `torch_npu.profiler`, with estimated times. A newer torch_npu has none of them.
The profiler itself is imported when one of them is used: bringing up the device does not wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from jumar.base.errors import UsageError
from jumar.npu.core.state import STATE

__all__ = [
    "iteration_end",
    "iteration_start",
    "prof_finalize",
    "prof_init",
    "prof_start",
    "prof_stop",
    "profile",
    "profileConfig",
]


class profileConfig:
    """What the CANN layer collects. Accepted as the vendor's; the emulator collects the same for all."""

    def __init__(
        self,
        ACL_PROF_ACL_API: bool = True,
        ACL_PROF_TASK_TIME: bool = True,
        ACL_PROF_AICORE_METRICS: bool = True,
        ACL_PROF_AICPU: bool = True,
        ACL_PROF_L2CACHE: bool = False,
        ACL_PROF_HCCL_TRACE: bool = True,
        ACL_PROF_TRAINING_TRACE: bool = False,
        TORCH_CALL_STACK: bool = False,
        aiCoreMetricsType: int = 1,
    ) -> None:
        self.with_stack = bool(TORCH_CALL_STACK)
        self.has_metrics = bool(ACL_PROF_AICORE_METRICS)
        self.options = {
            "ACL_PROF_ACL_API": ACL_PROF_ACL_API,
            "ACL_PROF_TASK_TIME": ACL_PROF_TASK_TIME,
            "ACL_PROF_AICPU": ACL_PROF_AICPU,
            "ACL_PROF_L2CACHE": ACL_PROF_L2CACHE,
            "ACL_PROF_HCCL_TRACE": ACL_PROF_HCCL_TRACE,
            "ACL_PROF_TRAINING_TRACE": ACL_PROF_TRAINING_TRACE,
            "aiCoreMetricsType": aiCoreMetricsType,
        }


@dataclass(slots=True)
class _State:
    folder: str | None = None
    interface: Any = None
    num_iterations: int = 0


_STATE = _State()


def prof_init(path: str) -> None:
    """Name the folder of the profile. Raises UsageError for something that is no path, or twice."""
    if not isinstance(path, str) or not path:
        raise UsageError(f"prof_init takes the path of a folder; got {path!r}: give a text.")
    if _STATE.folder is not None:
        raise UsageError("prof_init was called already; call prof_finalize before it is called again.")
    _STATE.folder = path


def prof_start(config: profileConfig | None = None) -> None:
    """Begin to collect. Raises UsageError before `prof_init`, and while collecting."""
    if _STATE.folder is None:
        raise UsageError("prof_start needs a folder, and prof_init has not named one: call prof_init(path) first.")
    if _STATE.interface is not None:
        raise UsageError("prof_start was called already; call prof_stop before it is called again.")
    from jumar.npu.profiler.experimental_config import ProfilerLevel, _ExperimentalConfig
    from jumar.npu.profiler.files.paths import CREATOR
    from jumar.npu.profiler.profiler_interface import _ProfInterface

    chosen = profileConfig() if config is None else config
    _STATE.interface = _ProfInterface(
        record_shapes=True,
        with_stack=chosen.with_stack,
        experimental_config=_ExperimentalConfig(profiler_level=ProfilerLevel.Level1),
    )
    CREATOR.configure(dir_name=_STATE.folder)
    _STATE.num_iterations = 0
    _STATE.interface.init_trace()
    _STATE.interface.start_trace()


def prof_stop() -> None:
    """End collecting. Raises UsageError when nothing is collected."""
    if _STATE.interface is None:
        raise UsageError("prof_stop ends what prof_start began, and nothing was begun: call prof_start first.")
    interface, _STATE.interface = _STATE.interface, None
    interface.stop_trace()
    interface.finalize_trace()
    interface.analyse()


def prof_finalize() -> None:
    """Forget the folder; a collection under way is ended."""
    if _STATE.interface is not None:
        prof_stop()
    _STATE.folder = None


def iteration_start() -> None:
    """Mark that a step begins; nothing while nothing is collected."""
    if _STATE.interface is not None:
        _STATE.interface.step(str(_STATE.num_iterations))
        _STATE.num_iterations += 1


def iteration_end() -> None:
    """Mark that a step ends: the next `iteration_start` does."""


class profile:
    """Collects into a folder: `with torch.npu.profile(path, config):`. `use_e2e_profiler` changes nothing."""

    def __init__(self, profiler_result_path: str = "./", config: Any = None, use_e2e_profiler: bool = False) -> None:
        self._path, self._config = profiler_result_path, config
        self.use_e2e_profiler = use_e2e_profiler

    def __enter__(self) -> profile:
        prof_init(self._path)
        prof_start(self._config)
        return self

    def __exit__(self, *_: object) -> None:
        prof_stop()
        prof_finalize()


_PyTorchs: Any = torch.autograd.profiler.profile


class AutogradProfile(_PyTorchs):  # type: ignore[misc]
    """`torch.autograd.profiler.profile` with `use_npu` and `use_npu_simple` (only the device's operators), both False.

    Without `use_npu`, or `use_device="npu"`, it is PyTorch's own. With it, `print(prof)` shows host and device columns,
    with `profile_memory=True` the device's memory too, and `export_chrome_trace` writes the estimated trace.
    """

    def __init__(
        self, enabled: bool = True, *, use_npu: bool = False, use_npu_simple: bool = False, **kwargs: Any
    ) -> None:
        if kwargs.get("use_device") == "npu":  # PyTorch's own asks for a timer in C++ that no device in Python has
            use_npu, kwargs["use_device"] = True, None
        self.use_npu = bool(use_npu and enabled)
        self.use_npu_simple = use_npu_simple
        self.npu_profile: Any = None
        self._npu_collector: Any = None
        if self.use_npu:
            kwargs.setdefault("use_kineto", True)
        super().__init__(enabled, **kwargs)

    def __enter__(self) -> Any:
        entered = super().__enter__()
        if self.use_npu:
            from jumar.npu.profiler.collect.collector import Collector, Options

            self._npu_collector = Collector(Options(host=False, profile_memory=bool(self.profile_memory)))
            self._npu_collector.start()
        return entered

    def __exit__(self, *error: object) -> Any:
        collector, self._npu_collector = self._npu_collector, None
        watched = collector.stop() if collector is not None else None
        left = super().__exit__(*error)
        if watched is not None:
            from jumar.npu.profiler.collect.executions import current_software
            from jumar.npu.profiler.collect.timeline import build

            watched.host_events = list(self.kineto_results.events())
            self.npu_profile = _empty(watched.epoch_ns + watched.start_ns, has_memory=bool(self.profile_memory))
            build(watched, STATE.profile, current_software(), self.npu_profile)
        return left

    def __str__(self) -> str:
        if self.npu_profile is None:
            return str(super().__str__())
        from jumar.npu.profiler.files.table import table

        return table(self.npu_profile, by_shape=bool(self.record_shapes), leaves_only=self.use_npu_simple)

    __repr__ = __str__

    def export_chrome_trace(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Write the trace: with `use_npu` the estimated one of host and device."""
        if self.npu_profile is None:
            return super().export_chrome_trace(path, *args, **kwargs)
        from jumar.npu.profiler.files import write_chrome_trace

        return write_chrome_trace(Path(path), self.npu_profile)


def _empty(epoch_ns: int, *, has_memory: bool) -> Any:
    from jumar.npu.profiler.collect.collected import Profile
    from jumar.npu.profiler.experimental_config import AiCMetrics, ProfilerLevel

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
    """Put `AutogradProfile` in place of PyTorch's class. Called once, when the backend comes up."""
    torch.autograd.profiler.profile = AutogradProfile  # type: ignore[misc]
