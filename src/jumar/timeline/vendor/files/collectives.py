"""`communication.json` and `communication_matrix.json`: waiting, transfer and bandwidth of every collective."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.timeline.vendor.files.database import opened
from jumar.timeline.vendor.text import documents, quantities
from jumar.timeline.vendor.text.losses import Losses

Pairs = list[tuple[str, str]]
_TOTAL = "Total Op Info"
_TIMES = ("Transit Time(ms)", "Wait Time(ms)", "Synchronization Time(ms)", "Idle Time(ms)")
_BANDWIDTH = ("Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)", "Large Packet Ratio")
_STORED_TIMES = {
    "transit_time": "Transit Time(ms)", "wait_time": "Wait Time(ms)", "idle_time": "Idle Time(ms)",
    "synchronization_time": "Synchronization Time(ms)",
}  # fmt: skip
_STORED_SPAN = ("start_timestamp", "elapse_time")
_STORED_BANDWIDTH = {
    "transit_size": "Transit Size(MB)", "transit_time": "Transit Time(ms)", "bandwidth": "Bandwidth(GB/s)",
    "large_packet_ratio": "Large Packet Ratio",
}  # fmt: skip
_MOST_LINKS = 256


@dataclass(frozen=True, slots=True)
class Collective:
    """One operator of communication."""

    name: str
    """Without the group: `hcom_allReduce__428_0_1`."""
    start_ns: int
    duration_ns: int
    pairs: Pairs
    """Further fields, in the file's words; those of a transport begin with its name: `HCCS Bandwidth(GB/s)`."""


def collectives(path: Path, losses: Losses) -> list[Collective]:
    """Return the collectives of `communication.json`. Raises OSError."""
    found = []
    for name, entry in _entries(documents.document(path, losses)):
        times = entry.get("Communication Time Info")
        times = times if isinstance(times, dict) else {}
        start = quantities.nanoseconds(times.get("Start Timestamp(us)", ""))
        duration = quantities.nanoseconds(times.get("Elapse Time(ms)", ""), 1_000_000)
        if start is None or duration is None:
            losses.passed_over(path.name, "their begin or length is no number")
            continue
        losses.read(path.name)
        short, _, group = name.partition("@")
        pairs = [("Group", group)] if group else []
        pairs += [(key, str(times[key])) for key in _TIMES if key in times]
        found.append(Collective(short, start, duration, pairs + _transports(entry)))
    return found


def _entries(content: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    steps = content.values() if isinstance(content, dict) else ()
    for kinds in steps:
        for operators in kinds.values() if isinstance(kinds, dict) else ():
            for name, entry in operators.items() if isinstance(operators, dict) else ():
                if name.partition("@")[0] != _TOTAL and isinstance(entry, dict):
                    yield name, entry


def _transports(entry: Mapping[str, Any]) -> Pairs:
    transports = entry.get("Communication Bandwidth Info")
    pairs: Pairs = []
    for name, info in transports.items() if isinstance(transports, dict) else ():
        if isinstance(info, dict) and (quantities.number(info.get("Transit Size(MB)", 0)) or 0) > 0:
            pairs += [(f"{name} {key}", str(info[key])) for key in _BANDWIDTH if key in info]
    return pairs


def stored_collectives(path: Path, losses: Losses) -> list[Collective]:
    """Return the collectives of `analysis.db`, times and bandwidths as in `communication.json`. Raises OSError."""
    found = []
    with opened(path, losses) as database:
        bandwidths: dict[Any, Pairs] = {}
        for row in database.rows("CommAnalyzerBandwidth", "hccl_op_name", "transport_type", *_STORED_BANDWIDTH):
            if quantities.number(row["transit_size"]):
                pairs = bandwidths.setdefault(row["hccl_op_name"], [])
                pairs += [
                    (f"{row['transport_type']} {key}", str(row[column])) for column, key in _STORED_BANDWIDTH.items()
                ]
        for row in database.rows("CommAnalyzerTime", "hccl_op_name", "group_name", *_STORED_TIMES, *_STORED_SPAN):
            start = quantities.nanoseconds(row["start_timestamp"])
            duration = quantities.nanoseconds(row["elapse_time"], 1_000_000)
            name = str(row["hccl_op_name"] or "")
            if name.partition("@")[0] == _TOTAL:
                continue
            if start is None or duration is None:
                losses.passed_over(path.name, "their begin or length is no number")
                continue
            pairs = [("Group", str(row["group_name"]))] if row["group_name"] else []
            pairs += [(key, str(row[column])) for column, key in _STORED_TIMES.items() if row[column] is not None]
            bandwidth = bandwidths.get(row["hccl_op_name"], [])
            found.append(Collective(name.partition("@")[0], start, duration, pairs + bandwidth))
    return found


def links(path: Path, losses: Losses) -> str:
    """Return the links between ranks as JSON, [from-to, transport, MB, ms], longest first. Raises OSError."""
    sums: dict[tuple[str, str], tuple[float, float]] = {}
    for _, entry in _entries(documents.document(path, losses)):
        for pair, info in entry.items():
            if not isinstance(info, dict):
                continue
            size, time = (quantities.number(info.get(key, "")) for key in ("Transit Size(MB)", "Transit Time(ms)"))
            before = sums.get((pair, str(info.get("Transport Type", ""))), (0.0, 0.0))
            sums[pair, str(info.get("Transport Type", ""))] = (before[0] + (size or 0), before[1] + (time or 0))
    ranked = sorted(sums.items(), key=lambda item: -item[1][1])
    if len(ranked) > _MOST_LINKS:
        losses.say(path.name, f"the {_MOST_LINKS} links of most time are kept of {len(ranked)}.")
    return json.dumps([[*names, round(size, 6), round(time, 6)] for names, (size, time) in ranked[:_MOST_LINKS]])
