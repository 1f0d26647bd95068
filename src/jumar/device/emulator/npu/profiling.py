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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jumar.errors import UsageError

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
    from jumar.device.emulator.profiler.experimental_config import ProfilerLevel, _ExperimentalConfig
    from jumar.device.emulator.profiler.paths import CREATOR
    from jumar.device.emulator.profiler.profiler_interface import _ProfInterface

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
