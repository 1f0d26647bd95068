"""The vendor's result file, `aoe_result_opat_<timestamp>_pid<pid>.json` (`sgat` for subgraphs), written live.

Form and rules are the vendor's. Training and online runs have `{"report_<timestamp>_<thread>": [...]}`, runs of a
model the list alone:

- `tuning_time(s)` is absent while the run goes on, and so after a run that was interrupted or killed;
- `opat_tuning_result` is "tuning incomplete" until the end, then "tuning successful", or "tuning failed"
  with `tuning_failed_operators`;
- the OPAT part is absent when the recording has no operator that can be tuned, the SGAT part when no subgraph could
  be tuned;
- of a model, the OPAT part has its time before and after, with all policies of its operators (`composed`);
- improvement is (before − after) / after, of the very numbers that are written;
- hit = reserved + update, total = hit + add + unsatisfied.

The file is replaced as a whole at every change, so that a reader never sees half of it.
"""

from __future__ import annotations

import json
import math
import os
import threading
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.base.errors import OutputError
from jumar.base.files import write_text
from jumar.tune.measure.options import JOB_OPERATORS, JOB_SUBGRAPHS
from jumar.tune.model.gate import improvement_percent
from jumar.tune.search.outcome import SlotOutcome, TaskOutcome, TuneResult, together_us

if TYPE_CHECKING:
    from jumar.tune.search.outcome import Counters
    from jumar.tune.search.subgraph.outcome import GraphOutcome

_ENDED = {"successful": "tuning successful", "failed": "tuning failed", "incomplete": "tuning incomplete"}


class ResultFile:
    """One file of one run. Raises OutputError when it cannot be written."""

    def __init__(self, folder: Path, now: datetime | None = None, *, job_type: int = JOB_OPERATORS) -> None:
        now = now or datetime.now()
        self._stamp = f"{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}"
        self._report = f"report_{self._stamp}_{threading.get_native_id()}"
        kind = "sgat" if job_type == JOB_SUBGRAPHS else "opat"
        self.path = folder / f"aoe_result_{kind}_{self._stamp}_pid{os.getpid()}.json"

    def write(self, result: TuneResult, *, ended: bool = False) -> None:
        """Write what `result` holds by now; `ended` when the run came to its own end."""
        parts = report(result, self.path.stem, ended=ended)
        text = json.dumps(parts if result.is_offline else {self._report: parts}, indent=4, ensure_ascii=False)
        try:
            write_text(self.path, text + "\n")
        except OSError as error:
            raise OutputError(
                f"{self.path} cannot be written ({error.strerror}). Free space there, or set ASCEND_WORK_PATH."
            ) from error


def report(result: TuneResult, name: str, *, ended: bool) -> list[dict[str, Any]]:
    """Return the value of the report's key, or the whole of a model's file."""
    basic: dict[str, Any] = {"tuning_name": name}
    if ended:
        basic["tuning_time(s)"] = round(result.wall_s)
    parts: list[dict[str, Any]] = [{"basic": basic}]
    if result.job_type == JOB_SUBGRAPHS:
        if len(result.failed_graphs()) < result.num_graphs:
            parts.append({"SGAT": sgat(result)})
    elif result.num_tasks:
        parts.append({"OPAT": _opat(result)})
    return parts


def _opat(result: TuneResult) -> dict[str, Any]:
    opat: dict[str, Any] = {
        "opat_tuning_result": _ENDED[result.status],
        "repo_modified_operators": [entry for task in result.tasks if (entry := _modified(task)) is not None],
        "repo_summary": summary(result.counters()),
    }
    if (times := together_us([one.times_us() for one in result.composed])) is not None:
        opat |= model_times(*times)
    if result.status == "failed":
        opat["tuning_failed_operators"] = [task.use.name for task in result.failed()]
    return opat


def _modified(task: TaskOutcome) -> dict[str, Any] | None:
    written = {slot.kind: _performance(slot) for slot in task.slots if slot.action in {"add", "update"}}
    if not written:
        return None
    return {"op_name": task.use.name, "op_type": task.use.task.base, "tune_performance": written}


def _performance(slot: SlotOutcome) -> dict[str, Any]:
    assert slot.gain is not None, "a policy is written only with its measurement"
    before, after = round(slot.gain.before_us, 3), round(slot.gain.after_us, 3)
    return {
        "performance_after_tune(us)": after,
        "performance_before_tune(us)": before,
        "performance_improvement": f"{improvement_percent(before, after):.2f}%",
        "update_mode": slot.action,
    }


def sgat(result: TuneResult) -> dict[str, Any]:
    """Return the part. The model's times are absent until every subgraph has some."""
    part: dict[str, Any] = {}
    times = result.model_us()
    if times is not None:
        part |= model_times(*times)
    part["repo_modified_subgraphs"] = {
        f"{action}_repo_subgraphs": [_graph_performance(graph) for graph in result.graphs if graph.action == action]
        for action in ("add", "update")
    }
    part["repo_summary"] = summary(result.counters())
    return part


def model_times(before_us: float, after_us: float) -> dict[str, Any]:
    """Return the three fields of a model before and after, which both parts of the file have."""
    before, after = _ms(before_us), _ms(after_us)
    return {
        "model_baseline_performance(ms)": before,
        "model_performance_improvement": _improvement(before, after),
        "model_result_performance(ms)": after,
    }


def summary(counters: Counters) -> dict[str, int]:
    """Return the vendor's counters: hit = reserved + update, total = hit + add + unsatisfied."""
    return {
        "repo_add_num": counters.add,
        "repo_hit_num": counters.hit,
        "repo_reserved_num": counters.reserved,
        "repo_unsatisfied_num": counters.unsatisfied,
        "repo_update_num": counters.update,
        "total_num": counters.total,
    }


def _graph_performance(graph: GraphOutcome) -> dict[str, Any]:
    assert graph.gain is not None, "a plan is written only with its measurement"
    before, after = _ms(graph.gain.before_us), _ms(graph.gain.after_us)
    return {
        "performance_after_tune(ms)": after,
        "performance_before_tune(ms)": before,
        "performance_improvement": _improvement(before, after),
        "repo_key": graph.repo_key,
    }


def _ms(time_us: float) -> float:
    return round(time_us / 1000, 6)


def _improvement(before: float, after: float) -> str:
    return f"{math.trunc(improvement_percent(before, after) * 100) / 100:.2f}%"
