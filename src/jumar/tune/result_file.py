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
import os
import threading
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from jumar.errors import OutputError
from jumar.recording.files import write_text_atomically
from jumar.tune.composed import composed_times_us
from jumar.tune.folders import expanded
from jumar.tune.gate import improvement_percent
from jumar.tune.options import JOB_OPERATORS, JOB_SUBGRAPHS
from jumar.tune.outcome import SlotOutcome, TaskOutcome, TuneResult
from jumar.tune.sgat import model_times, sgat, summary

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
            write_text_atomically(self.path, text + "\n")
        except OSError as error:
            raise OutputError(
                f"{self.path} cannot be written ({error.strerror}). Free space there, or set ASCEND_WORK_PATH."
            ) from error


def result_folder(environ: Mapping[str, str]) -> Path:
    """Return ASCEND_WORK_PATH, else the working folder. Raises OutputError when it is no folder."""
    named = environ.get("ASCEND_WORK_PATH")
    if not named:
        return Path.cwd()
    folder = expanded(named, "ASCEND_WORK_PATH", OutputError)
    if not folder.is_dir():
        raise OutputError(f"ASCEND_WORK_PATH must be an existing folder; got {named}. Make it, or unset it.")
    return folder


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
    if (times := composed_times_us(result.composed)) is not None:
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
