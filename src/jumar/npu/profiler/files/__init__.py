"""The files of a profile, in the layout and with the columns of the vendor's."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from jumar.npu.profiler.collect.collected import Profile
from jumar.npu.profiler.experimental_config import ProfilerLevel
from jumar.npu.profiler.files.communication import write_communication
from jumar.npu.profiler.files.kernels import write_api_statistic, write_kernel_details, write_op_statistic
from jumar.npu.profiler.files.memory import write_memory_record, write_operator_memory
from jumar.npu.profiler.files.operators import trees, write_operator_details
from jumar.npu.profiler.files.overlap import write_step_trace
from jumar.npu.profiler.files.paths import OUTPUT
from jumar.npu.profiler.files.trace import write_trace

__all__ = ["write_chrome_trace", "write_stacks", "write_text"]

SELF_DEVICE = "self_npu_time_total"


def write_text(folder: Path, profile: Profile) -> Path:
    """Write the text files of a profile below `folder` and return where they are."""
    output = folder / OUTPUT
    output.mkdir(parents=True, exist_ok=True)
    write_trace(output / "trace_view.json", profile)
    if profile.has_host:
        write_operator_details(output / "operator_details.csv", profile)
    if profile.has_device:
        write_kernel_details(output / "kernel_details.csv", profile)
        write_step_trace(output / "step_trace_time.csv", profile)
        if profile.level in (ProfilerLevel.Level1, ProfilerLevel.Level2):
            write_op_statistic(output / "op_statistic.csv", profile)
            write_api_statistic(output / "api_statistic.csv", profile)
            write_communication(output / "communication.json", profile)
    if profile.has_memory:
        write_operator_memory(output / "operator_memory.csv", profile)
        write_memory_record(output / "memory_record.csv", profile)
    return output


def write_chrome_trace(path: Path, profile: Profile) -> None:
    """Write the trace alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_trace(path, profile)


def write_stacks(path: Path, profile: Profile, metric: str) -> None:
    """Write call stacks with their time in microseconds, one a line, as flame graph tools read them."""
    total: dict[str, int] = defaultdict(int)
    for node in trees(profile):
        frames = [frame.strip() for frame in node.row.stack.split(";") if frame.strip()]
        if frames:
            time = node.device_ns if metric == SELF_DEVICE else node.host_self_ns
            total[";".join(frame.replace(" ", "_") for frame in reversed(frames))] += time
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{stack} {time // 1000}" for stack, time in total.items() if time >= 1000]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
