"""`torch_npu.profiler.profiler_interface`: one collection from its folder to its files."""

from __future__ import annotations

import importlib
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from jumar.npu.core.state import STATE
from jumar.npu.profiler.collect.collected import Profile
from jumar.npu.profiler.collect.collector import Collector, Options
from jumar.npu.profiler.collect.estimate_mark import estimate_mark
from jumar.npu.profiler.collect.executions import current_software
from jumar.npu.profiler.collect.timeline import build
from jumar.npu.profiler.experimental_config import AiCMetrics, ExportType, _ExperimentalConfig
from jumar.npu.profiler.files import write_text
from jumar.npu.profiler.files.paths import CREATOR, FRAMEWORK
from jumar.npu.profiler.messages import warn, warned_bool

__all__ = ["supported_activities"]

_ENVIRONMENT = (
    "ASCEND_GLOBAL_LOG_LEVEL", "HCCL_RDMA_TC", "HCCL_RDMA_SL", "ACLNN_CACHE_LIMIT", "HOST_CACHE_CAPACITY",
    "ASCEND_ENHANCE_ENABLE", "PYTORCH_NPU_ALLOC_CONF", "ASCEND_LAUNCH_BLOCKING", "HCCL_ALGO",
)  # fmt: skip
_MAX_TRACE_ID = 1024


class ProfilerActivity(Enum):
    """What to collect: the host's calls, and the device's kernels."""

    CPU = 0
    NPU = 1


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that can be collected: CPU and NPU."""
    return set(ProfilerActivity)


def _checked_activities(activities: Iterable[Any] | None) -> set[ProfilerActivity]:
    chosen = set(activities) if activities else supported_activities()
    if not chosen <= supported_activities():
        warn("Invalid activities, only CPU and NPU are supported, reset it to default.")
        return supported_activities()
    return chosen


class _ProfInterface:
    """What `profile` drives: collect, build the estimated timeline, write. One collection at a time."""

    def __init__(
        self,
        activities: Iterable[ProfilerActivity] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        schedule: Callable[[int], Any] | None = None,
        metadata: dict[str, Any] | None = None,
        experimental_config: _ExperimentalConfig | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        self.activities = _checked_activities(activities)
        self.record_shapes = warned_bool("record_shapes", record_shapes)
        self.profile_memory = warned_bool("profile_memory", profile_memory)
        self.with_stack = warned_bool("with_stack", with_stack)
        self.with_flops = warned_bool("with_flops", with_flops)
        self.with_modules = warned_bool("with_modules", with_modules)
        self.schedule = schedule
        self.metadata: dict[str, Any] = {} if metadata is None else metadata
        self.experimental_config = _checked_config(experimental_config)
        if self.experimental_config.with_gc and ProfilerActivity.CPU not in self.activities:
            warn("GC detect will not take effect while ProfilerActivity.CPU is not set.")
        self.custom_trace_id_callback = custom_trace_id_callback
        self.trace_id = ""
        self.prof_path = ""
        self.profile: Profile | None = None
        self.collector: Collector | None = None

    def init_trace(self) -> None:
        """Make the folder, where one is wanted."""
        folder = CREATOR.create()
        self.prof_path = "" if folder is None else str(folder)
        self.trace_id = self._trace_id()
        self.profile = None

    def warmup_trace(self) -> None:
        """Do nothing: the emulator's profiler needs no warming up."""

    def start_trace(self) -> None:
        """Begin to collect."""
        config = self.experimental_config
        options = Options(
            host=ProfilerActivity.CPU in self.activities,
            device=ProfilerActivity.NPU in self.activities,
            record_shapes=self.record_shapes,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_flops=self.with_flops,
            with_modules=self.with_modules,
            wants_domain=config.wants_domain,
            gc_threshold_ms=config.gc_detect_threshold,
        )
        self.collector = Collector(options)
        self.collector.start()

    def step(self, name: str) -> None:
        """Mark that a step begins."""
        if self.collector is not None:
            self.collector.step(name)

    def stop_trace(self) -> None:
        """End collecting and build the estimated timeline."""
        if self.collector is None:
            return
        watched, self.collector = self.collector.stop(), None
        config = self.experimental_config
        made = Profile(
            epoch_ns=watched.epoch_ns + watched.start_ns,
            soc=STATE.soc,
            level=config.profiler_level,
            metrics=config._aic_metrics,
            has_host=ProfilerActivity.CPU in self.activities,
            has_device=ProfilerActivity.NPU in self.activities,
            has_memory=self.profile_memory,
            is_first_generation=STATE.profile.family == "A1",
        )
        build(watched, STATE.profile, current_software(), made)
        self.profile = made

    def finalize_trace(self) -> None:
        """Write the raw data and what is known about it."""
        if not self.prof_path or self.profile is None:
            return
        folder = Path(self.prof_path)
        self.profile.save(folder / FRAMEWORK)
        rank = _rank()
        name = "profiler_info.json" if rank is None else f"profiler_info_{rank}.json"
        _write_json(folder / name, self._info(rank))
        self.metadata.setdefault("ENV_VARIABLES", {key: os.environ.get(key, "") for key in _ENVIRONMENT})
        self.metadata["trace_id"] = self.trace_id
        self.metadata["jumar_estimate"] = estimate_mark(self.profile)
        _write_json(folder / "profiler_metadata.json", self.metadata)
        self.metadata.clear()

    def delete_prof_dir(self) -> None:
        """Remove the folder of a collection that recorded nothing."""
        if self.prof_path and Path(self.prof_path).is_dir():
            for found in sorted(Path(self.prof_path).rglob("*"), reverse=True):
                found.rmdir() if found.is_dir() else found.unlink()
            Path(self.prof_path).rmdir()

    def analyse(self, *, async_mode: bool = False) -> None:
        """Write the files; with `async_mode` in a thread, which the end of the process waits for."""
        if self.profile is None or not self.prof_path:
            warn("Invalid profiling path.")
            return
        if ExportType.Text not in self.experimental_config.export_type:
            warn("The emulated NPU writes text files only, not .db files; it writes text.")
        folder, profile = Path(self.prof_path), self.profile
        if async_mode:
            threading.Thread(target=write_text, args=(folder, profile)).start()
        else:
            write_text(folder, profile)

    def _trace_id(self) -> str:
        callback: Any = self.custom_trace_id_callback
        default = f"{uuid.uuid4().int:032X}"
        if callback is None:
            return default
        if not callable(callback):
            warn("Parameter custom_trace_id_callback is not callable, reset it to default.")
            return default
        given = callback()
        if isinstance(given, str) and len(given) <= _MAX_TRACE_ID:
            return given
        warn(f"Parameter custom_trace_id_callback should return str(max length: {_MAX_TRACE_ID}), reset it to default.")
        return default

    def _info(self, rank: str | None) -> dict[str, Any]:
        common = {
            "activities": sorted(str(activity) for activity in self.activities),
            "schedule": dict(getattr(self.schedule, "__dict__", {})) or None,
            **{
                name: getattr(self, name)
                for name in ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
            },
        }
        info: dict[str, Any] = {
            "config": {"common_config": common, "experimental_config": self.experimental_config.to_dict()},
            "start_info": {"syscnt_enable": False, "freq": 100, "start_cnt": 0, "start_monotonic": 0},
            "end_info": {"collectionTimeEnd": time.time_ns(), "MonotonicTimeEnd": time.monotonic_ns()},
            "torch_npu_version": str(importlib.import_module("torch_npu").__version__),
            "cann_version": "not installed",
        }
        if self.profile is not None:
            info["jumar_estimate"] = estimate_mark(self.profile)
        return info if rank is None else info | {"rank_id": rank}


def _checked_config(given: Any) -> _ExperimentalConfig:
    if given is None:
        return _ExperimentalConfig()
    if not isinstance(given, _ExperimentalConfig):
        warn("Parameter experimental_config is an instance of _ExperimentalConfig, reset it to default.")
        return _ExperimentalConfig()
    if given._aic_metrics not in (AiCMetrics.PipeUtilization, AiCMetrics.AiCoreNone):
        warn(f"The emulated NPU has no figures for aic_metrics {given._aic_metrics}: use AiCMetrics.PipeUtilization.")
    for name in ("_l2_cache", "record_op_args", "_sys_io", "_sys_interconnection", "_host_sys"):
        if getattr(given, name):
            warn(f"The emulated NPU does not collect what {name.strip('_')} asks for.")
    return given


def _rank() -> str | None:
    rank = os.environ.get("RANK")
    if rank is None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return str(torch.distributed.get_rank())
    return rank


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=4, default=str), encoding="utf-8")
