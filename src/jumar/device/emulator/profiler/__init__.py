"""`torch_npu.profiler` of the emulated device: the vendor's interface and files, with estimated times."""

from __future__ import annotations

from jumar.device.emulator.profiler.experimental_config import (
    AiCMetrics,
    ExportType,
    HostSystem,
    ProfilerLevel,
    _ExperimentalConfig,
    supported_ai_core_metrics,
    supported_export_type,
    supported_profiler_level,
)
from jumar.device.emulator.profiler.profiler import _KinetoProfile, profile, tensorboard_trace_handler
from jumar.device.emulator.profiler.profiler_interface import ProfilerActivity, supported_activities
from jumar.device.emulator.profiler.scheduler import ProfilerAction
from jumar.device.emulator.profiler.scheduler import Schedule as schedule

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
