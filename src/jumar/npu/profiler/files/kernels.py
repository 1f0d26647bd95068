"""kernel_details.csv, op_statistic.csv and api_statistic.csv."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jumar.npu.profiler.collect.collected import KernelRow, Profile
from jumar.npu.profiler.experimental_config import AiCMetrics, ProfilerLevel
from jumar.npu.profiler.files.tables import us, us_text, write_csv

_BASE = (
    "Device_id", "Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Num",
)  # fmt: skip
_FULL = (
    "Device_id", "Model ID", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core", "Start Time(us)",
    "Duration(us)", "Wait Time(us)", "Block Num", "Mix Block Num", "HF32 Eligible", "Input Shapes", "Input Data Types",
    "Input Formats", "Output Shapes", "Output Data Types", "Output Formats", "Context ID",
)  # fmt: skip
_PIPES_COUPLED = (
    "aicore_time(us)", "total_cycles", "vec_time(us)", "vec_ratio", "mac_time(us)", "mac_ratio", "scalar_time(us)",
    "scalar_ratio", "mte1_time(us)", "mte1_ratio", "mte2_time(us)", "mte2_ratio", "mte3_time(us)", "mte3_ratio",
    "icache_miss_rate", "memory_bound",
)  # fmt: skip
_PIPES_SPLIT = (
    "aicore_time(us)", "aic_total_cycles", "aic_mac_time(us)", "aic_mac_ratio", "aic_scalar_time(us)",
    "aic_scalar_ratio", "aic_mte1_time(us)", "aic_mte1_ratio", "aic_mte2_time(us)", "aic_mte2_ratio",
    "aic_fixpipe_time(us)", "aic_fixpipe_ratio", "aic_icache_miss_rate", "aiv_time(us)", "aiv_total_cycles",
    "aiv_vec_time(us)", "aiv_vec_ratio", "aiv_scalar_time(us)", "aiv_scalar_ratio", "aiv_mte2_time(us)",
    "aiv_mte2_ratio", "aiv_mte3_time(us)", "aiv_mte3_ratio", "aiv_icache_miss_rate", "cube_utilization(%)",
)  # fmt: skip
_MODEL_ID = 4294967295
"""What single operators, which belong to no model, are given."""
NOT_KNOWN = "N/A"

_STATISTIC = (
    "Device_id", "OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)",
    "Ratio(%)",
)  # fmt: skip
_API = ("Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance")


def write_kernel_details(path: Path, profile: Profile) -> None:
    """Write one row a kernel; copies between host and device are no kernels. Level1 and up adds shapes and counters."""
    full = profile.level in (ProfilerLevel.Level1, ProfilerLevel.Level2)
    pipes: tuple[str, ...] = ()
    if full and profile.metrics == AiCMetrics.PipeUtilization:
        pipes = _PIPES_COUPLED if profile.is_first_generation else _PIPES_SPLIT
    headers = [*(["Step Id"] if profile.steps else []), *(_FULL if full else _BASE), *pipes]
    rows = []
    for kernel in profile.kernels:
        if kernel.core == "MEMCPY_ASYNC":
            continue
        row = _full(profile, kernel) if full else _base(profile, kernel)
        if pipes:
            row += _coupled(kernel) if profile.is_first_generation else _split(kernel)
        rows.append([kernel.step, *row] if profile.steps else row)
    write_csv(path, headers, rows)


def _times(profile: Profile, kernel: KernelRow) -> list[Any]:
    start = us_text(profile.epoch_ns, kernel.start_ns, "\t")
    return [start, us(kernel.end_ns - kernel.start_ns), us(kernel.wait_ns), kernel.blocks]


def _base(profile: Profile, kernel: KernelRow) -> list[Any]:
    return [kernel.device, kernel.name, kernel.type, kernel.core, *_times(profile, kernel)]


def _full(profile: Profile, kernel: KernelRow) -> list[Any]:
    state = NOT_KNOWN if kernel.is_communication else ("dynamic" if kernel.is_dynamic else "static")
    mixed = kernel.blocks * 2 if kernel.core == "MIX_AIC" else 0
    return [
        kernel.device, _MODEL_ID, kernel.task, kernel.stream, kernel.name, kernel.type, state, kernel.core,
        *_times(profile, kernel), mixed, "YES" if kernel.is_hf32 else "NO", kernel.input_shapes, kernel.input_dtypes,
        kernel.input_formats, kernel.output_shapes, kernel.output_dtypes, kernel.output_formats, NOT_KNOWN,
    ]  # fmt: skip


def _pipe(time_ns: float, total_ns: int) -> tuple[float, float]:
    return us(time_ns), round(min(1.0, time_ns / total_ns), 3) if total_ns else 0.0


def _coupled(kernel: KernelRow) -> list[Any]:
    if kernel.core != "AI_CORE":
        return [NOT_KNOWN] * len(_PIPES_COUPLED)
    total = kernel.end_ns - kernel.start_ns
    read, write = kernel.memory_ns * kernel.read_share, kernel.memory_ns * (1 - kernel.read_share)
    busiest = max(kernel.cube_ns, kernel.vector_ns)
    return [
        us(total), NOT_KNOWN, *_pipe(kernel.vector_ns, total), *_pipe(kernel.cube_ns, total),
        *_pipe(kernel.scalar_ns, total), NOT_KNOWN, NOT_KNOWN, *_pipe(read, total), *_pipe(write, total), NOT_KNOWN,
        round(read / busiest, 4) if busiest else 0,
    ]  # fmt: skip


def _split(kernel: KernelRow) -> list[Any]:
    total = kernel.end_ns - kernel.start_ns
    read, write = kernel.memory_ns * kernel.read_share, kernel.memory_ns * (1 - kernel.read_share)
    cube: list[Any] = [0] * 13
    vector: list[Any] = [0] * 11
    if kernel.core in ("AI_CORE", "MIX_AIC"):
        cube = [
            us(total), NOT_KNOWN, *_pipe(kernel.cube_ns, total), *_pipe(kernel.scalar_ns, total), NOT_KNOWN, NOT_KNOWN,
            *_pipe(read, total), *_pipe(write, total), NOT_KNOWN,
        ]  # fmt: skip
    if kernel.core in ("AI_VECTOR_CORE", "MIX_AIC"):
        vector = [
            us(total), NOT_KNOWN, *_pipe(kernel.vector_ns, total), *_pipe(kernel.scalar_ns, total), *_pipe(read, total),
            *_pipe(write, total), NOT_KNOWN,
        ]  # fmt: skip
    utilization = round(100 * min(1.0, kernel.cube_ns / total), 3) if total else 0
    return [*cube, *vector, utilization]


def write_op_statistic(path: Path, profile: Profile) -> None:
    """Write count and times of each operator type and unit, the longest total first."""
    groups: dict[tuple[int, str, str], list[int]] = defaultdict(list)
    for kernel in profile.kernels:
        if not kernel.is_communication and kernel.core != "MEMCPY_ASYNC":
            groups[kernel.device, kernel.type, kernel.core].append(kernel.end_ns - kernel.start_ns)
    whole: dict[int, int] = defaultdict(int)
    for (device, _, _), times in groups.items():
        whole[device] += sum(times)
    rows = []
    for (device, name, core), times in sorted(groups.items(), key=lambda item: (item[0][0], -sum(item[1]))):
        ratio = round(100 * sum(times) / whole[device], 3) if whole[device] else 0.0
        rows.append([device, name, core, len(times), *_summary(times), ratio])
    write_csv(path, _STATISTIC, rows)


def _summary(times: Sequence[int]) -> list[float]:
    return [us(sum(times)), us(min(times)), us(sum(times) / len(times)), us(max(times))]


def write_api_statistic(path: Path, profile: Profile) -> None:
    """Write count and host times of CANN's functions: the share of the operator's host time behind Python's part."""
    groups: dict[str, list[float]] = defaultdict(list)
    for name, duration in api_calls(profile):
        groups[name].append(duration / 1e3)
    rows = [
        [
            "host", "acl", name, round(sum(times), 3), len(times), round(sum(times) / len(times), 3),
            round(min(times), 3), round(max(times), 3), round(statistics.pvariance(times), 3),
        ]
        for name, times in sorted(groups.items(), key=lambda item: -sum(item[1]))
    ]  # fmt: skip
    write_csv(path, _API, rows)


API_NS = 5000
"""Length given to a call of CANN on the host (assumed); the model has one host time for the whole operator."""


def api_calls(profile: Profile) -> list[tuple[str, int]]:
    """Return one (function, nanoseconds) for each operator that ran kernels."""
    found, seen = [], set()
    for kernel in profile.kernels:
        if kernel.operator not in seen:
            seen.add(kernel.operator)
            name = "aclrtMemcpyAsync" if kernel.core == "MEMCPY_ASYNC" else kernel.api
            found.append((name, API_NS))
    return found
