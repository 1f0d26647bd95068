"""communication.json: time and bandwidth of every collective, by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jumar.npu.profiler.collect.collected import KernelRow, Profile
from jumar.npu.profiler.files.tables import us_text

_MIB = 2.0**20
_TRANSPORTS = ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")
_POINT_TO_POINT = ("hcom_send", "hcom_receive", "hcom_batchsendrecv")


def write_communication(path: Path, profile: Profile) -> bool:
    """Write the file where the profile has collectives; return whether it has."""
    steps: dict[str, dict[str, dict[str, Any]]] = {}
    for row in profile.kernels:
        if not row.is_communication:
            continue
        kinds = steps.setdefault(f"step{row.step}", {"p2p": {}, "collective": {}})
        kind = "p2p" if row.type.lower().startswith(_POINT_TO_POINT) else "collective"
        kinds[kind][f"{row.name}@group_name_0"] = _entry(profile, row)
    for kinds in steps.values():
        for operators in kinds.values():
            if operators:
                operators["Total Op Info"] = _total(list(operators.values()))
    if steps:
        path.write_text(json.dumps(steps, indent=1), encoding="utf-8")
    return bool(steps)


def _entry(profile: Profile, row: KernelRow) -> dict[str, Any]:
    elapsed_ms = (row.end_ns - row.start_ns) / 1e6
    size_mb = row.num_bytes / _MIB
    times = {
        "Start Timestamp(us)": float(us_text(profile.epoch_ns, row.start_ns)),
        "Elapse Time(ms)": elapsed_ms,
        **_shares(elapsed_ms),
    }
    return {"Communication Time Info": times, "Communication Bandwidth Info": _bandwidth(size_mb, elapsed_ms)}


def _shares(elapsed_ms: float) -> dict[str, float]:
    return {
        "Transit Time(ms)": elapsed_ms,
        "Wait Time(ms)": 0.0,
        "Synchronization Time(ms)": 0.0,
        "Idle Time(ms)": 0.0,
        "Wait Time Ratio": 0.0,
        "Synchronization Time Ratio": 0.0,
    }


def _bandwidth(size_mb: float, time_ms: float) -> dict[str, Any]:
    """One server's devices talk over HCCS; the other transports carry nothing."""
    empty = {"Transit Size(MB)": 0, "Transit Time(ms)": 0, "Bandwidth(GB/s)": 0, "Large Packet Ratio": 0}
    found: dict[str, Any] = {name: {**empty, "Size Distribution": {}} for name in _TRANSPORTS}
    found["HCCS"].update(
        {
            "Transit Size(MB)": size_mb,
            "Transit Time(ms)": time_ms,
            "Bandwidth(GB/s)": round(size_mb / time_ms, 4) if time_ms else 0,
        }
    )
    return found


def _total(entries: list[dict[str, Any]]) -> dict[str, Any]:
    elapsed = sum(entry["Communication Time Info"]["Elapse Time(ms)"] for entry in entries)
    size = sum(entry["Communication Bandwidth Info"]["HCCS"]["Transit Size(MB)"] for entry in entries)
    times = {"Elapse Time(ms)": elapsed, **_shares(elapsed)}
    return {"Communication Time Info": times, "Communication Bandwidth Info": _bandwidth(size, elapsed)}
