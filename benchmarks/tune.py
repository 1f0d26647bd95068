"""Whole models under Jumar's tuned plan and under every other engine, interleaved in one process tree.

    python benchmarks/tune.py --rows shufflenet:1:1 --budget 2m      # model:batch:threads[:error budget]
    python benchmarks/tune.py --rows all --budget 10m                # every row; those in the file are kept
    python benchmarks/tune.py --table                                # print what was measured

For each row Jumar tunes the model into a bank of its own, then all engines are prepared, each in a process of its
own with the same weights, inputs and number of threads. They are called in turn, in an order that is drawn anew each
round, after one call that is not timed; rounds in which other programs took a core are taken again for a while. What
is kept is the median over the rounds with its 95 % interval (order statistics), and the ratio to Jumar round by
round. Rows are added to `tune.json` one by one, so that an interrupted run keeps them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import tune_models
from tune_contenders import ENGINES, LOWER_PRECISION, TRAIN
from tune_table import RATIOS, by_machine, guide_with, machine_of, table, told

from jumar.base.files import write_text
from jumar.tune.backend.knowledge import ERROR_BUDGET
from jumar.tune.measure.options import parse_duration_s
from jumar.tune.model.gate import median_interval
from jumar.tune.model.machine import this_machine

HERE = Path(__file__).parent
SAMPLE_S = 0.05
"""Least length of one timed sample."""
MOST_WAITING = 0.05
"""A sample during which a thread was kept from running for more than this share is disturbed."""
PATIENCE = 4
"""Disturbed rounds are taken again for up to this many times the seconds that were asked for."""
LEAST_ROUNDS = 11
REST_S = 0.02
"""Between two engines: threads that spin after their call come to rest; those of OpenMP take up to 15 ms."""
BATCHES, THREADS = (1, 8), (1, 2)


@dataclass(frozen=True, slots=True)
class Row:
    model: str
    batch: int
    threads: int
    budget: float | None = None
    """Error budget of a precision row."""

    @classmethod
    def parse(cls, text: str) -> Row:
        parts = text.split(":")
        if not 3 <= len(parts) <= 4 or parts[0] not in tune_models.NAMES or not all(map(str.isdigit, parts[1:3])):
            raise SystemExit(f'"{text}" must be MODEL:BATCH:THREADS[:ERROR]; models are {", ".join(tune_models.NAMES)}')
        return cls(parts[0], int(parts[1]), int(parts[2]), float(parts[3]) if len(parts) == 4 else None)

    @property
    def name(self) -> str:
        return f"{self.model}:{self.batch}:{self.threads}" + (f":{self.budget:g}" if self.budget is not None else "")

    @property
    def is_training(self) -> bool:
        return self.model in tune_models.TRAINING

    def engines(self, wanted: Sequence[str]) -> list[str]:
        fitting = TRAIN if self.is_training else tuple(ENGINES)
        left_out = () if self.budget is not None else LOWER_PRECISION
        return [name for name in fitting if name in wanted and name not in left_out]


def all_rows() -> list[Row]:
    models = (*tune_models.CONVOLUTION, *tune_models.TRANSFORMERS)
    rows = [Row(model, batch, threads) for model in models for batch in BATCHES for threads in THREADS]
    rows += [Row(model, 8, threads) for model in tune_models.TRAINING for threads in THREADS]
    return rows + [Row(model, 1, threads, 1e-2) for model in models for threads in THREADS]


class Contender:
    """An engine in its process."""

    def __init__(self, engine: str, row: Row, environment: dict[str, str], folder: Path) -> None:
        self.engine = engine
        self.output = folder / f"{engine}.pt"
        self.us: list[float] = []
        arguments = [engine, f"{row.model}:{row.batch}", str(row.threads), str(self.output)]
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "tune_contenders.py"), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        line = self._process.stdout.readline()
        self.hello: dict[str, Any] = json.loads(line) if line else {"error": "its process ended"}
        self.calls = 1

    def time(self, calls: int) -> dict[str, float]:
        self._process.stdin.write(json.dumps({"calls": calls}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.engine}: its process ended while it was measured")
        return json.loads(line)

    def calibrate(self) -> None:
        self.calls = max(1, math.ceil(SAMPLE_S * 1e6 / min(self.time(1)["us"] for _ in range(3))))

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def environment_of(row: Row, bank: Path) -> dict[str, str]:
    threads = {name: str(row.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS")}
    bank.mkdir(parents=True, exist_ok=True)
    row_name = f"{row.model}:{row.batch}"
    own = {"TUNE_BANK_PATH": str(bank), "ASCEND_WORK_PATH": str(bank), tune_models.ROW_VARIABLE: row_name}
    lower = {} if row.budget is None else {ERROR_BUDGET: f"{row.budget:g}"}  # as `jumar run --tuned --budget` sets it
    return os.environ | threads | own | lower


def tune(row: Row, environment: dict[str, str], budget: str) -> dict[str, Any]:
    """Tune the row's model as a user would, with the command line; return how long it took and what it said."""
    jumar = [sys.executable, "-m", "jumar"]
    precision = ["--precision", "auto", "--budget", f"{row.budget:g}"] if row.budget is not None else []
    if row.is_training:
        command = [*jumar, "tune", str(HERE / "tune_models.py"), "--job-type", "1", "--time-budget", budget]
    else:
        source = f"{HERE / 'tune_models.py'}:selected"
        command = [*jumar, "tune", source, "--job-type", "1", "--time-budget", budget, *precision]
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    for folder in (str(HERE), environment["TUNE_BANK_PATH"]):
        told = told.replace(f"{folder}{os.sep}", "")
    lines = told.strip().splitlines()
    return {"tuning_s": time.perf_counter() - start, "code": done.returncode, "said": lines[:3] + lines[-3:]}


def measure(contenders: Sequence[Contender], seconds: float) -> int:
    """Take rounds until `seconds` are used; returns how many were disturbed and left out."""
    for one in contenders:
        one.calibrate()
    order, start, disturbed = random.Random(1), time.monotonic(), 0
    kept: list[dict[str, float]] = []
    noisy: list[dict[str, float]] = []
    while True:
        elapsed = time.monotonic() - start
        if len(kept) >= LEAST_ROUNDS and elapsed > seconds:
            break
        if elapsed > PATIENCE * seconds and len(kept) + len(noisy) >= LEAST_ROUNDS:
            break
        samples = {}
        waited = 0.0
        for one in order.sample(list(contenders), len(contenders)):
            time.sleep(REST_S)
            sample = one.time(one.calls)
            samples[one.engine], waited = sample["us"], max(waited, sample["waited"])
        (kept if waited <= MOST_WAITING else noisy).append(samples)
    disturbed = len(noisy)
    used = kept if len(kept) >= LEAST_ROUNDS else kept + noisy
    for one in contenders:
        one.us = [samples[one.engine] for samples in used]
    return disturbed if used is kept else -disturbed


def result_of(one: Contender, ours: Sequence[Contender], reference: torch.Tensor | None) -> dict[str, Any]:
    """Return an engine's cell: median, interval, ratios to Jumar (above 1: Jumar is faster), error to eager."""
    if not one.us:
        return {"error": one.hello.get("error", "not measured")}
    low, high = median_interval(one.us)
    cell = one.hello | {"median_us": statistics.median(one.us), "low_us": low, "high_us": high, "rounds": len(one.us)}
    for jumar in ours:
        name = RATIOS[jumar.engine]
        logs = [math.log(other / own) for other, own in zip(one.us, jumar.us, strict=True)]
        cell[name] = math.exp(statistics.median(logs))
        cell[f"{name}_low"], cell[f"{name}_high"] = map(math.exp, median_interval(logs))
    if reference is not None:
        output = torch.load(one.output)
        cell["worst_error"] = float((output - reference).abs().max() / reference.abs().max())
    return cell


def run_row(row: Row, options: argparse.Namespace) -> dict[str, Any]:
    bank = Path(options.banks) / row.name.replace(":", "-")
    environment = environment_of(row, bank)
    names = row.engines(options.engines)
    load = os.getloadavg()[0]
    tuned = tune(row, environment, options.budget) if "jumar" in names and not options.no_tuning else None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        everyone = [stack.enter_context(Contender(name, row, environment, folder)) for name in names]
        able = [one for one in everyone if "error" not in one.hello]
        disturbed = measure(able, options.seconds)
        ours = [one for one in able if one.engine in RATIOS]
        eager = next((one for one in able if one.engine == "eager"), None)
        reference = torch.load(eager.output) if eager is not None else None
        cells = {one.engine: result_of(one, ours, reference) for one in everyone}
    return {
        "row": row.name, "engines": cells, "tuning": tuned, "budget": options.budget, "load_average": load,
        "disturbed_rounds": abs(disturbed), "quiet": disturbed >= 0, "machine": asdict(this_machine()),
        "versions": {name: metadata.version(name) for name in ("torch", "jumar")}, "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }  # fmt: skip


def read(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text("utf-8")) if path.exists() else []


def add(path: Path, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Write the row into the file, in place of an older one of the same name and machine; whole or not at all."""
    rows = [old for old in read(path) if identity(old) != identity(row)] + [row]
    write_text(path, json.dumps(rows, indent=1) + "\n")
    return rows


def identity(row: dict[str, Any]) -> tuple[str, str]:
    return row["row"], machine_of(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="all", help="rows with commas, or `all`")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=list(ENGINES), help="names with commas")
    parser.add_argument("--budget", default="2m", help="Jumar's time to tune a row")
    parser.add_argument("--seconds", type=lambda text: parse_duration_s(text, "--seconds"), default=20.0)
    parser.add_argument("--out", type=Path, default=HERE / "tune.json")
    parser.add_argument("--banks", default=str(Path(tempfile.gettempdir()) / "jumar-bench-banks"))
    parser.add_argument("--again", action="store_true", help="measure rows that the file has, too")
    parser.add_argument("--no-tuning", action="store_true", help="use the banks as they are")
    parser.add_argument("--table", action="store_true", help="print what was measured and measure nothing")
    parser.add_argument("--guide", type=Path, help="write the table between the marks of this document")
    options = parser.parse_args()
    wanted = all_rows() if options.rows == "all" else [Row.parse(text) for text in options.rows.split(",")]
    rows = read(options.out)
    here = machine_of({"machine": asdict(this_machine())})
    known = set() if options.again else {name for name, machine in map(identity, rows) if machine == here}
    for row in [] if options.table else wanted:
        if row.name not in known:
            print(row.name, flush=True)
            old = next((one for one in rows if identity(one) == (row.name, here)), {})
            kept = {name: old.get(name) for name in ("tuning", "budget")} if options.no_tuning else {}
            rows = add(options.out, run_row(row, options) | kept)
            print(table(rows[-1:]), flush=True)
    print("\n\n".join(map(told, by_machine(rows))))
    if options.guide is not None:
        write_text(options.guide, guide_with(options.guide.read_text("utf-8"), rows))


if __name__ == "__main__":
    main()
