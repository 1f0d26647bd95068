"""`torch_npu.profiler` of the emulated device: the vendor's interface and files, with estimated times."""

from __future__ import annotations

from jumar.npu.profiler.experimental_config import (
    AiCMetrics,
    ExportType,
    HostSystem,
    ProfilerLevel,
    _ExperimentalConfig,
    supported_ai_core_metrics,
    supported_export_type,
    supported_profiler_level,
)
from jumar.npu.profiler.profiler import _KinetoProfile, profile, tensorboard_trace_handler
from jumar.npu.profiler.profiler_interface import ProfilerActivity, supported_activities
from jumar.npu.profiler.scheduler import ProfilerAction
from jumar.npu.profiler.scheduler import Schedule as schedule

__all__ = [
    "AiCMetrics",
    "ExportType",
    "HostSystem",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "_KinetoProfile",
    "profile",
    "schedule",
    "supported_activities",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
    "tensorboard_trace_handler",
]
