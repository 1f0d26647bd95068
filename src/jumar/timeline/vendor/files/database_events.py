"""Events of `ascend_pytorch_profiler_N.db` and `msprof_*.db`: kernels, collectives, calls of the host, memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jumar.timeline.model.events import Detail, Kind, Lane, StepWindow
from jumar.timeline.vendor import words
from jumar.timeline.vendor.columns import EventColumns
from jumar.timeline.vendor.files import kernels
from jumar.timeline.vendor.files.database import Database, whole
from jumar.timeline.vendor.files.statistics import Sums, add
from jumar.timeline.vendor.text.losses import Losses

_DETAILS = {
    "opState": "OP State", "blockDim": "Block Dim", "blockNum": "Block Dim", "mixBlockDim": "Mix Block Dim",
    "mixBlockNum": "Mix Block Dim", "hf32Eligible": "HF32 Eligible", "inputShapes": "Input Shapes",
    "inputDataTypes": "Input Data Types", "inputFormats": "Input Formats", "outputShapes": "Output Shapes",
    "outputDataTypes": "Output Data Types", "outputFormats": "Output Formats",
}  # fmt: skip
"""Columns of COMPUTE_TASK_INFO to keys of `Detail.more`; those of blocks are numbers, the others strings' numbers."""
_COMPUTE = ("globalTaskId", "name", "opType", "taskType", *_DETAILS)
_LAYERS = {20000: "AscendCL", 15000: "Model", 10000: "Node", 5500: "Communication", 5000: "Runtime"}
_FRAMEWORK = {50001: "cpu_op", 50002: "enqueue", 50003: "python_function", 50004: "mstx"}


@dataclass(slots=True)
class DatabaseReader:
    """Reads one file into `columns`."""

    database: Database
    columns: EventColumns
    losses: Losses
    kernels: Sums = field(default_factory=dict)
    """Kernels by name, to be checked against other files."""
    _links: dict[int, int] = field(default_factory=dict)
    """Number of a connection -> link."""

    def events(self) -> None:
        """Take every event."""
        self._framework()
        self._calls()
        self._tasks(self._computes())
        self._collectives()
        self._collections()
        self._marks()

    def sums(self) -> Sums:
        """Return kernels by name without taking an event."""
        computes = self._computes()
        found: Sums = {}
        for row in self.database.rows("TASK", "startNs", "endNs", "globalTaskId"):
            start, end = whole(row["startNs"]), whole(row["endNs"])
            detail = computes.get(row["globalTaskId"])
            if detail is not None and start is not None and end is not None:
                add(found, detail[0], end - start)
        return found

    def _framework(self) -> None:
        connections: dict[Any, list[int]] = {}
        for row in self.database.rows("CONNECTION_IDS", "id", "connectionId"):
            number = whole(row["connectionId"])
            if number is not None:
                connections.setdefault(row["id"], []).append(number)
        stacks = {row["id"]: row["stack"] for row in self.database.rows("PYTORCH_CALLCHAINS", "id", "stack")}
        for row in self.database.rows(
            "PYTORCH_API", "startNs", "endNs", "globalTid", "connectionId", "name", "sequenceNumber", "inputDtypes",
            "inputShapes", "callchainId", "type",
        ):  # fmt: skip
            name = self.database.text(row["name"])
            kind = _framework_kind(name, row["type"])
            self._event(
                "PYTORCH_API", row, kind, name, _thread("Python", row["globalTid"]), self._called(row, stacks),
                self._link(connections.get(row["connectionId"], ())), whole(row["sequenceNumber"]),
            )  # fmt: skip

    def _called(self, row: Any, stacks: dict[Any, Any]) -> Detail | None:
        detail = Detail(
            shapes=words.shapes(self.database.text(row["inputShapes"])),
            dtypes=words.listed(self.database.text(row["inputDtypes"])),
            stack=words.users_frame(self.database.text(stacks.get(row["callchainId"]))),
        )
        return detail if detail != Detail() else None

    def _link(self, connections: Iterable[int]) -> int:
        """Return the link that the connections of one call share: they are joined by the first of them."""
        numbers = list(connections)
        if not numbers:
            return 0
        link = next((self._links[number] for number in numbers if number in self._links), numbers[0] + 1)
        for number in numbers:
            self._links.setdefault(number, link)
        return link

    def _calls(self) -> None:
        for row in self.database.rows("CANN_API", "startNs", "endNs", "type", "globalTid", "connectionId", "name"):
            layer = _LAYERS.get(row["type"], "")
            name = self.database.text(row["name"])
            name = f"{layer}@{name}" if layer and "@" not in name else name
            connection = whole(row["connectionId"])
            link = self._links.get(connection, connection + 1) if connection is not None and connection >= 0 else 0
            lane = _thread("CANN", row["globalTid"])
            self._event(
                "CANN_API", row, words.runtime_kind(name), name, lane, None, link if layer in ("Node", "") else 0
            )

    def _computes(self) -> dict[Any, tuple[str, Detail]]:
        """Return name and detail of the kernels by the global number of their task."""
        found = {}
        for row in self.database.rows("COMPUTE_TASK_INFO", *_COMPUTE):
            unit = words.core(self.database.text(row["taskType"]))
            pairs = [(words.CORE, unit), (words.OP_TYPE, self.database.text(row["opType"]))]
            for column, key in _DETAILS.items():
                value = row[column]
                is_number = key.endswith("Block Dim")
                pairs.append((key, "" if value is None else str(value) if is_number else self.database.text(value)))
            more = dict(pairs)
            found[row["globalTaskId"]] = self.database.text(row["name"]), Detail(
                shapes=words.shapes(more.get("Input Shapes", "")),
                dtypes=words.listed(more.get("Input Data Types", "")),
                more=kernels.known(self.columns, pairs),
            )  # fmt: skip
        return found

    def _tasks(self, computes: dict[Any, tuple[str, Detail]]) -> None:
        collectives = {row["globalTaskId"] for row in self.database.rows("COMMUNICATION_TASK_INFO", "globalTaskId")}
        for row in self.database.rows(
            "TASK", "startNs", "endNs", "deviceId", "connectionId", "globalTaskId", "taskType", "streamId"
        ):
            unit = words.core(self.database.text(row["taskType"]))
            name, detail = computes.get(row["globalTaskId"], (unit or "task", None))
            lane = Lane(f"Stream {row['streamId']}", "Ascend Hardware", "device", whole(row["deviceId"]) or 0)
            more = dict(detail.more) if detail else {}
            kind = Kind.OTHER if detail is None else words.device_kind(name, more.get(words.CORE, unit))
            if detail is None and row["globalTaskId"] not in collectives:
                kind = words.device_kind(name, unit) if "MEMCPY" in unit or "SDMA" in unit else Kind.OTHER
            connection = whole(row["connectionId"])
            link = self._links.get(connection, connection + 1) if connection is not None and connection >= 0 else 0
            if self._event("TASK", row, kind, name, lane, detail, link) and detail is not None:
                add(self.kernels, name, self.columns.duration_ns[-1])

    def _collectives(self) -> None:
        for row in self.database.rows(
            "COMMUNICATION_OP", "startNs", "endNs", "opName", "groupName", "connectionId", "opType", "deviceId"
        ):
            group = self.database.text(row["groupName"])
            lane = Lane(f"Group {group} Communication", "Communication", "device", whole(row["deviceId"]) or 0)
            pairs = [(words.OP_TYPE, self.database.text(row["opType"])), ("Group", group)]
            connection = whole(row["connectionId"])
            link = self._links.get(connection, 0) if connection is not None else 0
            detail = Detail(more=kernels.known(self.columns, pairs))
            self._event("COMMUNICATION_OP", row, Kind.COLLECTIVE, self.database.text(row["opName"]), lane, detail, link)

    def _collections(self) -> None:
        for row in self.database.rows("GC_RECORD", "startNs", "endNs", "globalTid"):
            self._event("GC_RECORD", row, Kind.COLLECTOR, "GC", _thread("Python GC", row["globalTid"]), None, 0)

    def _marks(self) -> None:
        for row in self.database.rows("MSTX_EVENTS", "startNs", "endNs", "message", "globalTid"):
            lane = _thread("MSTX", row["globalTid"])
            self._event("MSTX_EVENTS", row, Kind.RANGE, self.database.text(row["message"]), lane, None, 0)

    def _event(
        self, table: str, row: Any, kind: Kind, name: str, lane: Lane, detail: Detail | None, link: int,
        sequence: int | None = None,
    ) -> bool:  # fmt: skip
        start, end = whole(row["startNs"]), whole(row["endNs"])
        if start is None or end is None or end < start:
            self.losses.passed_over(f"{self.database.name}, table {table}", "their begin or end is no number")
            return False
        self.losses.read(f"{self.database.name}, table {table}")
        self.columns.add(
            start,
            end - start,
            kind,
            name,
            lane,
            detail=detail,
            link=link,
            sequence=-1 if sequence is None else sequence,
        )
        return True

    def memory(self) -> None:
        """Count memory over time: of the framework's allocator, or of CANN's where that is what there is."""
        for row in self.database.rows("NPU_OP_MEM", "timestampNs", "totalAllocate", "totalReserve", "deviceId"):
            time, used, reserved = (whole(row[name]) for name in ("timestampNs", "totalAllocate", "totalReserve"))
            for size, name in ((used, "memory"), (reserved, "reserved")):
                if time is not None and size is not None:
                    self.columns.builder.count(f"{name} npu:{whole(row['deviceId']) or 0} GE", "bytes", time, size)
        for row in self.database.rows(
            "MEMORY_RECORD", "component", "timestamp", "totalAllocated", "totalReserved", "totalActive", "deviceId"
        ):
            time = whole(row["timestamp"])
            if time is None:
                self.losses.passed_over(f"{self.database.name}, table MEMORY_RECORD", "their time is no number")
                continue
            component = self.database.text(row["component"])
            tail = "" if component in ("", "PTA") else f" {component}"
            for column, name in (
                ("totalAllocated", "memory"),
                ("totalReserved", "reserved"),
                ("totalActive", "active"),
            ):
                size = whole(row[column])
                if size is not None:
                    self.columns.builder.count(f"{name} npu:{whole(row['deviceId']) or 0}{tail}", "bytes", time, size)

    def steps(self) -> list[StepWindow]:
        """Return the steps of `STEP_TIME`."""
        found = []
        for row in self.database.rows("STEP_TIME", "id", "startNs", "endNs"):
            number, start, end = (whole(row[column]) for column in ("id", "startNs", "endNs"))
            if number is not None and start is not None and end is not None and end >= start:
                found.append(StepWindow(number, start, end))
        return sorted(found, key=lambda step: step.start_ns)

    def facts(self) -> dict[str, str]:
        """Return what the file says of the run."""
        found = {str(row["name"]): str(row["value"]) for row in self.database.rows("META_DATA", "name", "value")}
        devices = [str(row["name"]) for row in self.database.rows("NPU_INFO", "id", "name") if row["name"]]
        ranks = [whole(row["rankId"]) for row in self.database.rows("RANK_DEVICE_MAP", "rankId")]
        if devices:
            found["device_name"] = devices[0]
        if ranks and ranks[0] is not None and ranks[0] >= 0:
            found["rank"] = str(ranks[0])
        return found


def _framework_kind(name: str, kind: Any) -> Kind:
    category = _FRAMEWORK.get(kind, "cpu_op") if isinstance(kind, int) else "cpu_op"
    return Kind.RANGE if category == "mstx" else words.host_kind(name, category)


def _thread(process: str, number: Any) -> Lane:
    """Return the lane of a host's thread; the lower half of its global number is the system's."""
    tid = whole(number)
    return Lane(f"Thread {(tid or 0) & 0xFFFFFFFF}", process, "host")
