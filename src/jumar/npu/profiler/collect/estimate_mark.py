"""The words that mark estimated figures in the files of a profile."""

from __future__ import annotations

from typing import Any

from jumar.npu.profiler.collect.collected import Profile


def estimate_mark(profile: Profile) -> dict[str, Any]:
    """Return what the metadata of a profile says about its numbers."""
    return {
        "is_estimate": True,
        "made_by": "the emulated NPU of Jumar; no NPU was used",
        "soc": profile.soc,
        "estimated": [
            "every duration, wait and start time of kernels and copies on the device",
            "host times of operators (a fixed price each); other host times follow that clock",
            "unit times, ratios and block numbers of kernel_details.csv",
            "step_trace_time.csv, op_statistic.csv, api_statistic.csv, communication.json",
        ],
        "counted": [
            "which operators ran, their shapes, dtypes and formats",
            "memory sizes",
            "conversions and compiles",
        ],
        "assumed": list(profile.assumed),
        "model": "jumar docs emulator-time-model",
    }
