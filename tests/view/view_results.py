"""Results as Jumar leaves them, made without running a model: two recordings, and what commands save."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from jumar.base.findings import Finding, Location, Severity
from jumar.comparison import compare
from jumar.port.layout import Layout
from jumar.recording import CallRow, RecordingWriter, RunEnd, RunInfo, TensorRow
from jumar.recording.sketch import sketch_of
from jumar.show import findings_document, json_text, page_json, render_html
from jumar.show.compare.page import compare_page
from jumar.tune.bank.entry import Tried
from jumar.tune.bank.store import Bank
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Policy, Task, TensorSpec

LAYERS = ("embed", "layers.0.attn", "layers.0.mlp", "layers.1.attn", "layers.1.mlp", "head")
WRONG = "layers.1.attn"
SHAPE = (4, 32)


def described(name: str, array: np.ndarray, storage: int) -> TensorRow:
    values = array.astype(np.float64)
    return TensorRow(
        name=name, shape=array.shape, dtype="float32", device="cpu", stride=(SHAPE[1], 1) if array.ndim == 2 else (),
        storage_offset=0, contiguous=True, storage=storage, minimum=float(values.min()), maximum=float(values.max()),
        mean=float(values.mean()), l2=float(math.sqrt((values * values).sum())), num_nan=0, num_inf=0,
        sketch=sketch_of(array),
    )  # fmt: skip


def call(step: int, seq: int, path: str, name: str, source: str, read: np.ndarray, made: np.ndarray, kind: str = "op"):
    row = CallRow(
        step=step, rank=0, seq=seq, kind=kind, phase="forward", module_path=path, module_type="Linear", name=name,
        occurrence=0, source=source, draws=False, is_view=False, start_us=10.0 * seq, duration_us=5.0 + seq,
        inputs=(described("input.0", read, seq),), outputs=(described("output.0", made, seq + 1),),
    )  # fmt: skip
    return row, {"input.0": read, "output.0": made}


def record(
    folder: Path, *, wrong: float = 1.0, steps: int = 3, ended: bool = True, command: tuple[str, ...] = ("train.py",)
) -> Path:
    """Write a recording; `wrong` scales what one layer makes."""
    writer = RecordingWriter(
        folder, RunInfo(command=command, device="cpu", values="tensors", created="2026-01-02T03:04:05+00:00")
    )
    for step in range(steps):
        random = np.random.default_rng(step)
        value = random.normal(size=SHAPE).astype(np.float32)
        rows, tensors = [], {}
        for seq, path in enumerate(LAYERS):
            made = np.tanh(value * np.float32(1.1)).astype(np.float32) * np.float32(wrong if path == WRONG else 1.0)
            row, arrays = call(step, seq, path, "aten::tanh", f"train.py:{seq + 1}", value, made)
            rows.append(row)
            tensors[row.key] = arrays
            value = made
        loss = np.asarray(np.float32(np.abs(value).mean() / (step + 1)))
        row, _ = call(step, len(LAYERS), "", "loss", "train.py:9", value, loss, kind="loss")
        rows.append(replace(row, inputs=()))
        gradient, weight = value * np.float32(0.1), value + np.float32(step)
        row, _ = call(step, len(LAYERS) + 1, "head", "weight", "", gradient, weight, kind="parameter")
        grad = replace(row.inputs[0], name="input.grad")
        rows.append(replace(row, phase="optimizer", inputs=(grad,)))
        writer.write_step(step, rows, tensors)
    if ended:
        writer.close(RunEnd(rank=0, status="finished", num_steps=steps, wall_s=1.5))
    return folder


def fill(folder: Path) -> Path:
    """Fill a folder with one result of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text("".join(f"line_{number} = {number}\n" for number in range(1, 12)))
    reference, target = record(folder / "runs" / "reference"), record(folder / "runs" / "target", wrong=1.5)
    record(folder / "runs" / "killed", ended=False, command=("killed.py",))
    comparison = compare(reference, target)
    body = {name: value for name, value in comparison.to_json().items() if name != "findings"}
    body["reference"]["path"], body["target"]["path"] = "runs/reference", "runs/target"
    (folder / "accuracy.json").write_text(json_text(findings_document(comparison.findings, **body)))
    page = compare_page(comparison)
    (folder / "accuracy.html").write_text(render_html(page))
    port(folder / "ported", page)
    doctor(folder)
    profile(folder / "profiled")
    tuned(folder / "tuning")
    return folder


def finding(message: str = "libhccl.so is not there.", severity: Severity = Severity.ERROR) -> Finding:
    return Finding(code="JM830", severity=severity, message=message, where=Location(path="job.log", line=4),
                   why="The loader looked for it.", action="Source set_env.sh.")  # fmt: skip


def port(folder: Path, page) -> None:
    layout = Layout(folder)
    layout.prepare(force=False)
    layout.page.write_text(render_html(page))
    layout.findings.write_text(json_text(findings_document([finding()], page=page_json(page))))
    record(layout.reference, steps=1)
    record(layout.target, steps=1, wrong=1.5)
    (folder / "work" / "npu").mkdir(parents=True)
    record(folder / "work" / "npu" / "left-out", steps=1)


def doctor(folder: Path) -> None:
    first = finding()
    files = [{"path": "job.log", "rank": 0, "num_lines": 12, "size_bytes": 300, "first_time": None, "last_time": None}]
    (folder / "job.json").write_text(
        json_text(findings_document([first], first=first.to_json(), files=files, notes=[]))
    )
    warning = finding("The cores are throttled.", Severity.WARNING)
    (folder / "machine.json").write_text(
        json_text(findings_document([warning], device="cpu", facts={"Python": "3.11"}, not_checked=[], num_checked=9))
    )


def profile(folder: Path) -> None:
    folder.mkdir()
    events = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}}]
    for step in range(3):
        at = step * 1000
        events.append(
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{step}",
                "pid": 1,
                "tid": 1,
                "ts": at,
                "dur": 900,
            }
        )
        events += [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at + 100 + 90 * k, "dur": 80}
            for k in range(5)
        ]
    with gzip.open(folder / "run.pt.trace.json.gz", "wt") as file:
        json.dump({"schemaVersion": 1, "traceEvents": events}, file)


def gain(ratio: float, spread: float = 0.02) -> Gain:
    return Gain(before_us=100.0, after_us=100.0 / ratio, mean_before_us=100.0, mean_after_us=100.0 / ratio, ratio=ratio,
                ratio_low=ratio - spread, ratio_high=ratio + spread, num_pairs=21)  # fmt: skip


def screening(number: int, ratio: float, error: float) -> str:
    outcome = Outcome(status="measured", phase="measure", gain=gain(ratio), worst_error=error, allowed_error=1e-3)
    text = json.dumps(outcome.to_json(), sort_keys=True)
    key = f"trial{number}"
    line = {"trial": key, "crc": zlib.crc32(f"{key} {text}".encode()), "outcome": text,
            "of": "aten::mm", "candidate": f"threads {number}"}  # fmt: skip
    return json.dumps(line) + "\n"


def tuned(folder: Path) -> None:
    (folder / "aoe_workspace").mkdir(parents=True)
    head = json.dumps({"jumar_job": 1, "name": "runs/reference", "work": "w", "machine": "m"}) + "\n"
    lines = [screening(1, 1.2, 1e-6), screening(2, 1.5, 1e-4), screening(3, 0.9, 1e-5)]
    (folder / "aoe_workspace" / "reference_0123456789abcdef.job").write_text(head + "".join(lines))
    performance = {"performance_after_tune(us)": 80.0, "performance_before_tune(us)": 100.0,
                   "performance_improvement": "25.00%", "update_mode": "add"}  # fmt: skip
    modified = [{"op_name": "mm_0", "op_type": "aten::mm", "tune_performance": {"threads": performance}}]
    summary = {"repo_add_num": 1, "repo_hit_num": 0, "repo_reserved_num": 0, "repo_unsatisfied_num": 2,
               "repo_update_num": 0, "total_num": 3}  # fmt: skip
    part = {"opat_tuning_result": "tuning successful", "repo_modified_operators": modified, "repo_summary": summary}
    parts = [{"basic": {"tuning_name": "x", "tuning_time(s)": 4}}, {"OPAT": part}]
    (folder / "aoe_result_opat_20260102030405006_pid7.json").write_text(json.dumps({"report_1": parts}))
    bank(folder)


def bank(folder: Path) -> None:
    spec = TensorSpec(shape=(8, 16), dtype="float32", stride=(16, 1))
    task = Task(operator="aten::tanh", tensors={"self": spec}, arguments={})
    machine = Machine(device="cpu", model="a chip", capability="AVX2", num_threads=2, torch="2.13.0", compiler="gcc 12")
    policy = Policy(kind="Schedule", provider="pytorch", settings={"num_threads": 1})
    tried = [
        Tried(policy=policy, outcome=Outcome(status="measured", phase="measure", gain=gain(1.4), worst_error=1e-7))
    ]
    opened = Bank.open(folder, create=True)
    opened.accept(task, machine, policy, incumbent=(), gain=gain(1.4), min_gain=0.02, tried=tried)
    opened.close()
