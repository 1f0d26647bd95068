"""Files of MindSpore's data pipeline and of its older profiler: depth of queues, time of batches, steps of a graph."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.timeline.model.events import Kind, Lane, StepWindow
from jumar.timeline.vendor import extras
from jumar.timeline.vendor.columns import EventColumns
from jumar.timeline.vendor.files import step_tables
from jumar.timeline.vendor.text import documents, quantities, tables
from jumar.timeline.vendor.text.losses import Losses

_NAMES = {
    "batches": r"(dataset_iterator|device_queue)_profiling_\d+\.txt",
    "pipeline": r"pipeline_profiling_\d+\.json",
    "pipeline_table": r"minddata_pipeline_raw_\d+\.csv",
    "summary": r"minddata_pipeline_summary_\d+\.(json|csv)",
    "queue": r"minddata_(aicpu|getnext_profiling)_\d+\.txt",
    "processor": r"minddata_cpu_utilization_\d+\.json",
    "steps": r"step_trace_raw_\d+_detail_time\.csv",
    "sums": r"(aicore|aicpu)_intermediate_\d+(_detail|_type)?\.csv|[cg]pu_op_(detail|type)_info_\d+\.csv|dataset\.csv",
}
_PATTERNS = {role: re.compile(name) for role, name in _NAMES.items()}
_PIPELINE: tables.Columns = {
    "id": ("op_id",), "type": ("op_type",), "size": ("output_queue_size",), "length": ("output_queue_length",),
    "interval": ("sample_interval",), "workers": ("num_workers",), "inputs": ("children_id",),
}  # fmt: skip
_MS = 1_000_000
_TIME, _DEPTH = 0, 1
_BATCH, _PUSH = 2, 1
_LANE = Lane("data pipeline", "minddata", "host")
_LONGEST_FACT = 20_000


def role(name: str) -> str:
    """Return what a file of this name tells; empty for a file of another kind."""
    return next((role for role, pattern in _PATTERNS.items() if pattern.fullmatch(name)), "")


def is_minddata(name: str) -> bool:
    """Return whether a file of this name is the data pipeline's or the older profiler's."""
    return bool(role(name)) and name != "dataset.csv"


@dataclass(slots=True)
class MinddataReader:
    """Reads the files of one rank into `columns` and `facts`.

    minddata counts milliseconds of a clock without a date. Beside events of another clock, its first time is placed at
    the begin of the events; `facts` says so.
    """

    columns: EventColumns
    losses: Losses
    facts: dict[str, str]
    has_queue: bool = False
    _shift_ns: int | None = None

    def read(self, paths: Iterable[Path]) -> list[StepWindow]:
        """Read the files; return the steps of the graph, where they are known. A file the system refuses is a loss."""
        found: dict[str, list[Path]] = {}
        for path in paths:
            found.setdefault(role(path.name), []).append(path)
        steps: list[StepWindow] = []
        try:
            for path in found.get("batches", []):
                self._batches(path)
            for path in found.get("pipeline", []):
                self._pipeline(path)
            self._pipeline_tables(found.get("pipeline_table", []), is_needed="pipeline" not in found)
            for path in found.get("queue", []):
                self._queue(path)
            for path in found.get("steps", []):
                steps += self._steps(path)
            for path in (*found.get("summary", []), *found.get("sums", []), *found.get("processor", [])):
                self.facts[path.name] = path.read_text("utf-8-sig", errors="replace")[:_LONGEST_FACT]
        except OSError as error:
            self.losses.say(str(error.filename), f"cannot be read ({error.strerror or error}).")
        return steps

    def _shifted(self, time_ns: int) -> int:
        if self._shift_ns is None:
            starts = self.columns.start_ns
            self._shift_ns = min(starts) - time_ns if len(starts) else 0
            if self._shift_ns:
                self.facts["clock of the data pipeline"] = "its own, placed at the begin of the other events"
        return time_ns + self._shift_ns

    def _batches(self, path: Path) -> None:
        """Lines of five numbers: type, detail, batch, value, milliseconds."""
        lines = path.read_text("utf-8-sig", errors="replace").splitlines()
        for line in lines:
            numbers = [quantities.integer(part) for part in line.split()]
            if not line.strip():
                continue
            if len(numbers) != 5 or any(number is None for number in numbers):
                self.losses.passed_over(path.name, "they are not five numbers")
                continue
            self.losses.read(path.name)
            what, detail, _, value, time = (number or 0 for number in numbers)
            self._batch(what, detail, value, time * _MS)
        if not lines:
            self.losses.say(path.name, "the file is empty.")

    def _batch(self, what: int, detail: int, value: int, time_ns: int) -> None:
        if abs(time_ns) > 2**61 or abs(value) > 2**40:
            return
        if what == _DEPTH:
            self.has_queue = True
            self.columns.builder.count("loader queue", "count", self._shifted(time_ns), value)
            self.facts["loader queue length"] = str(detail)
        elif what == _TIME and detail in (_BATCH, _PUSH):
            name = "get next batch" if detail == _BATCH else "push batch to the device"
            duration = max(value, 0) * _MS
            if detail == _BATCH or duration:
                self.columns.add(self._shifted(time_ns) - duration, duration, Kind.DATA, name, _LANE)

    def _pipeline(self, path: Path) -> None:
        content = documents.document(path, self.losses)
        content = content if isinstance(content, dict) else {}
        interval = quantities.decimal(content.get("sampling_interval", ""))
        operators = content.get("op_info")
        for operator in operators if isinstance(operators, list) else ():
            queue = operator.get("metrics") if isinstance(operator, dict) else None
            queue = queue.get("output_queue") if isinstance(queue, dict) else None
            if isinstance(queue, dict) and isinstance(queue.get("size"), list):
                name = f"{operator.get('op_type', '')} {operator.get('op_id', '')}".strip()
                self._depths(name, queue["size"], float(interval or 0), str(queue.get("length", "")))
                self._describe(name, operator.get("num_workers", ""), operator.get("children", []))

    def _pipeline_tables(self, paths: Sequence[Path], is_needed: bool) -> None:
        for path in paths:
            for row in tables.rows(path, _PIPELINE, ("id", "type"), self.losses):
                sizes = row.text("size")
                if not is_needed or not sizes:
                    continue
                try:
                    depths = json.loads(sizes)
                except (ValueError, RecursionError):
                    self.losses.passed_over(path.name, "their queue sizes are no list")
                    continue
                name = f"{row.text('type')} {row.text('id')}"
                self._depths(
                    name, depths if isinstance(depths, list) else [], row.number("interval") or 0, row.text("length")
                )
                self._describe(name, row.text("workers"), row.text("inputs"))

    def _describe(self, name: str, workers: Any, inputs: Any) -> None:
        """Note the workers of an operator, and the numbers of those that it reads from."""
        self.facts[f"workers of {name}"] = str(workers)
        self.facts[f"inputs of {name}"] = " ".join(re.findall(r"\d+", str(inputs)))

    def _depths(self, name: str, depths: Sequence[Any], interval_ms: float, length: str) -> None:
        """Count the depth of an operator's queue, sampled at an interval from the pipeline's begin."""
        if not 0 < interval_ms < 1e9:
            self.losses.disagree(f"The samples of the queue behind {name} have no interval, so they are left out.")
            return
        start = min(self.columns.start_ns) if len(self.columns) else 0
        for place, depth in enumerate(depths):
            value = quantities.number(depth)
            if value is not None:
                self.has_queue = True
                time = start + round(place * interval_ms * _MS)
                self.columns.builder.count(f"queue behind {name}", "count", time, value)
        self.facts[f"length of the queue behind {name}"] = length

    def _queue(self, path: Path) -> None:
        """Lines of a name, two times in microseconds and the depth of the queue."""
        for line in path.read_text("utf-8-sig", errors="replace").splitlines():
            parts = re.split(r"[\s,]+", line.strip())
            if len(parts) < 4 or parts[0] in ("node_name", ""):
                continue
            start, end = (quantities.nanoseconds(part) for part in parts[-3:-1])
            depth = quantities.integer(parts[-1])
            if start is None or end is None or depth is None or end < start:
                self.losses.passed_over(path.name, "their times or their queue size are no numbers")
                continue
            self.has_queue = True
            self.losses.read(path.name)
            begin = self._shifted(start)
            self.columns.add(begin, end - start, Kind.DATA, parts[0], _LANE)
            self.columns.builder.count("loader queue", "count", begin, depth)

    def _steps(self, path: Path) -> list[StepWindow]:
        found = step_tables.ticks(path, self.losses)
        return extras.take_iterations(self.columns, found, path.name, self.losses) if found else []
