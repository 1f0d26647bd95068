"""A second start: from the start of a process to its first result, tuned before, against the same model untuned.

    python benchmarks/tune_start.py [--rows shufflenet:1,resnet50:1] [--budget 3m] [--rounds 7] [--json FILE]

For each row (model:batch, one thread) the model is tuned into a bank of its own and written as an artefact. Then a new
process is started for each way in turn, round by round, which imports PyTorch, makes the model with its weights (or
loads the artefact) and computes one result. A figure is the median over the rounds, after one that warms up the disk's
cache and that of TorchInductor; a ratio is the median of the ratios to `eager` within the rounds, with the least and
the greatest. `started` is how many processes the way itself starts: a compiler, where it compiles.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import tune_models

from jumar.tune.model.machine import this_machine
from jumar.tune.model.task import Policy
from jumar.tune.plan.plan import worded

HERE = Path(__file__).parent
MAKE = "import tune_models; model, inputs = tune_models.make({model!r}, {batch})\n"
CALL = "with torch.no_grad(): {function}(*inputs)\n"
COUNTING = """
import sys
sys.path.insert(0, {here!r})
started = []
sys.addaudithook(lambda event, args: started.append(args[0]) if event == 'subprocess.Popen' else None)
import torch
torch.set_num_threads(1)
"""
WAYS = {
    "eager": MAKE + CALL.format(function="model"),
    "torch.compile": MAKE + CALL.format(function="torch.compile(model)"),
    "torch.compile, jumar": MAKE + CALL.format(function="torch.compile(model, backend='jumar')"),
    "jumar.load": (
        "import jumar, tune_models; inputs = tune_models.inputs_of({model!r}, {batch})\n"
        + CALL.format(function="jumar.load({artefact!r})")
    ),
}
TELL = "print(len(started))\n"


def tuned(row: str, folder: Path, budget: str) -> dict[str, str]:
    """Tune a row into `folder`; return the environment in which its plan is found."""
    environment = os.environ | {
        "TUNE_BANK_PATH": str(folder), "ASCEND_WORK_PATH": str(folder), "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), tune_models.ROW_VARIABLE: row,
    }  # fmt: skip
    # A second start finds the bytecode of what it imports: of Jumar's modules as of PyTorch's.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    source = f"{HERE / 'tune_models.py'}:selected"
    command = [
        sys.executable, "-m", "jumar", "tune", source, "--job-type", "1", "--time-budget", budget,
        "--output", str(folder / "model.jumar"),
    ]  # fmt: skip
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return environment


def plan_of(environment: dict[str, str]) -> str:
    """Return the plan that the bank has; empty without: then nothing of what is measured is a tuned start."""
    command = [sys.executable, "-m", "jumar", "bank", "list", "--json"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    policies = [entry["policy"] for entry in json.loads(done.stdout)["entries"] if entry["policy"]]
    return worded(Policy.from_json(policies[0])) if policies else ""


def first_result(code: str, environment: dict[str, str]) -> tuple[float, int]:
    """Return the seconds from the start of a process that runs `code` to its end, and how many it started itself."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, int(done.stdout.splitlines()[-1])


def measure(row: str, rounds: int, budget: str) -> dict[str, Any]:
    model, _, batch = row.partition(":")
    with tempfile.TemporaryDirectory() as folder:
        environment = tuned(row, Path(folder), budget)
        plan = plan_of(environment)
        names = {"model": model, "batch": int(batch), "artefact": f"{folder}/model.jumar"}
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        started: dict[str, int] = {}
        for number in range(rounds + 1):
            for way, code in WAYS.items():
                whole = COUNTING.format(here=str(HERE)) + code.format(**names) + TELL
                took, started[way] = first_result(whole, environment)
                if number:
                    seconds[way].append(took)
    figures: dict[str, Any] = {}
    for way, took in seconds.items():
        ratios = [mine / base for mine, base in zip(took, seconds["eager"], strict=True)]
        figures[way] = {
            "seconds": statistics.median(took), "ratio": statistics.median(ratios), "least": min(ratios),
            "greatest": max(ratios), "started": started[way],
        }  # fmt: skip
    return {"plan": plan, "ways": figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="shufflenet:1,resnet50:1", help="model:batch, with commas")
    parser.add_argument("--budget", default="3m", help="Jumar's time to tune a row")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    found = {row: measure(row, options.rounds, options.budget) for row in options.rows.split(",")}
    for row, figures in found.items():
        plan = figures["plan"] or "NO PLAN"
        print(f"{row:24}{'seconds':>9}{'ratio':>7}{'least':>7}{'most':>7}{'started':>9}  {plan}")
        for way, one in figures["ways"].items():
            print(
                f"  {way:22}{one['seconds']:9.2f}{one['ratio']:7.2f}{one['least']:7.2f}{one['greatest']:7.2f}"
                f"{one['started']:9}"
            )
    if options.json:
        machine = this_machine()
        about = {
            "machine": machine.model, "torch": torch.__version__, "python": sys.version.split()[0],
            "rounds": options.rounds, "load": os.getloadavg()[0],
        }  # fmt: skip
        options.json.write_text(json.dumps({**about, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
