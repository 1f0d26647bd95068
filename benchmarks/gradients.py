"""Gradient splits: the simulated table of a ResNet-50 model, and one training in two real processes.

    python benchmarks/gradients.py [--budget 3m] [--rate 3gbit] [--json FILE] [--guide docs/tune-gradients.md]

The table holds the tail, in ms, of splits that people choose by hand and of the solved one. The measurement is what
`jumar tune --job-type 4` says of a network of `LAYERS` linear layers (`WIDTH` wide) in two processes over Gloo. With
`--rate` it is made once more over a loopback of that rate (`tc`'s token bucket in a network namespace; needs root).
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from gradients_model import resnet50

from jumar.tune.model.machine import this_machine
from jumar.tune.search.gradients.model import Link
from jumar.tune.search.gradients.solve import solve
from jumar.tune.search.gradients.splits import MIB, capped, ddp_default, evaluated, one_bucket, per_tensor, sizes_of

SETTINGS = ((60, 50, 20.0), (60, 200, 10.0), (60, 200, 1.25), (100, 1000, 3.0))
"""Milliseconds of the backward pass, α in us, GB/s."""
SOLVED = 15
"""Runs of the solver that are timed."""
GDAT_SHARE = 0.9654
"""Of the bytes, the first of the two buckets that CANN makes by default."""
LAYERS, WIDTH, BATCH = 12, 1024, 64
SCRIPT = f"""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
dist.init_process_group("gloo")
layers = [layer for _ in range({LAYERS}) for layer in (nn.Linear({WIDTH}, {WIDTH}), nn.ReLU())]
model = DistributedDataParallel(nn.Sequential(*layers, nn.Linear({WIDTH}, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn({BATCH}, {WIDTH})), torch.randint(0, 10, ({BATCH},))).backward()
    optimizer.step()
"""
START, END = "<!-- measured: benchmarks/gradients.py -->", "<!-- end of measured -->"


def simulated() -> list[dict[str, Any]]:
    """Return a row for each setting: the tail of each split in ms, and how long the solver took."""
    rows = []
    for backward_ms, latency_us, rate in SETTINGS:
        gradients, link = resnet50(backward_ms * 1e-3), Link(latency_s=latency_us * 1e-6, bandwidth=rate * 1e9)
        total = sum(one.size_bytes for one in gradients)
        last = len(gradients) - 1
        shares = (place for place in range(last) if sizes_of(gradients, [place, last])[0] >= GDAT_SHARE * total)
        two = min(([place, last] for place in range(last)), key=lambda ends: evaluated(gradients, link, ends).tail_s)
        solved, solver_s = solve(gradients, link), []
        for _ in range(SOLVED):
            began = time.process_time()
            solve(gradients, link)
            solver_s.append(time.process_time() - began)
        splits = {
            "one bucket": one_bucket(gradients), "per tensor": per_tensor(gradients), "[85, 160]": [74, last],
            "best two": two, "GDAT's default": [next(shares), last], "DDP 25 MiB": ddp_default(gradients),
            "DDP 100 MiB": capped(gradients, 100 * MIB, MIB), "solved": solved.ends,
        }  # fmt: skip
        tails = {name: 1e3 * evaluated(gradients, link, ends).tail_s for name, ends in splits.items()}
        rows.append(
            {
                "backward_ms": backward_ms, "latency_us": latency_us, "gb_s": rate, "tails_ms": tails,
                "num_buckets": solved.num_buckets, "solver_ms": 1e3 * statistics.median(solver_s),
            }
        )  # fmt: skip
    return rows


def over(rate: str, words: list[str]) -> list[str]:
    """Return a command that runs another one over a loopback of this rate, which no other program shares."""
    limit = f"ip link set lo up && tc qdisc add dev lo root tbf rate {rate} burst 512kb latency 200ms"
    return ["unshare", "-n", "bash", "-c", f"{limit} && exec {shlex.join(words)}"] if rate else words


def measured(budget: str, rate: str = "") -> dict[str, Any]:
    """Return what `jumar tune --job-type 4` says of the script, without its gradients."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT)
        environment = os.environ | {"TUNE_BANK_PATH": folder, "ASCEND_WORK_PATH": folder, "OMP_NUM_THREADS": "1"}
        words = ["jumar", "tune", str(script), "--job-type", "4", "--nproc", "2", "--time-budget", budget, "--json"]
        done = subprocess.run(over(rate, words), env=environment, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    machine = this_machine()
    return {
        "machine": machine.model, "capability": machine.capability, "torch": torch.__version__,
        "python": sys.version.split()[0], "date": time.strftime("%Y-%m-%d"), "load": os.getloadavg()[0],
        "num_cores": len(os.sched_getaffinity(0)), "budget": budget, "rate": rate,
        **{name: found[name] for name in (
            "status", "is_faster", "gain", "first_gain", "link", "backward_s", "own", "split", "buckets_before",
            "buckets_after",
        )},
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """Return the simulated rows as Markdown."""
    names = list(rows[0]["tails_ms"])
    lines = [f"| backward, α, bandwidth | {' | '.join(names)} | buckets |", "|---" * (len(names) + 2) + "|"]
    for row in rows:
        setting = f"{row['backward_ms']} ms, {row['latency_us']} us, {row['gb_s']:g} GB/s"
        tails = " | ".join(f"{tail:.3g}" for tail in row["tails_ms"].values())
        lines.append(f"| {setting} | {tails} | {row['num_buckets']} |")
    solver = max(row["solver_ms"] for row in rows)
    return "\n".join([*lines, "", f"A row is solved in {solver:.1f} ms or less (processor time, median of {SOLVED})."])


def sentence(found: dict[str, Any]) -> str:
    """Return the measurement in words."""
    gain, link = found["gain"], found["link"]
    before, after = gain["before_us"] / 1e3, gain["after_us"] / 1e3
    low, high = ((gain[name] - 1) * 100 for name in ("ratio_low", "ratio_high"))
    verdict = "kept" if found["is_faster"] else "not kept"
    limited = f", on a loopback limited to {found['rate']}/s," if found["rate"] else ""
    return (
        f"Two processes over Gloo{limited} on {found['num_cores']} cores of {found['machine']} "
        f"({found['capability']}), torch {found['torch']}, {found['date']}, load {found['load']:.1f} at the end: an "
        "all-reduce takes "
        f"{link['latency_s'] * 1e6:.3g} us + bytes / {link['bandwidth'] / 1e9:.3g} GB/s, with a residual of "
        f"{link['residual'] * 100:.0f} %. By the model the tail falls from {found['own']['tail_s'] * 1e3:.3g} to "
        f"{found['split']['tail_s'] * 1e3:.3g} ms ({found['own']['num_buckets']} and {found['split']['num_buckets']} "
        f"buckets). Measured, a pass takes {before:.4g} ms with DDP's default and {after:.4g} ms with the proposal "
        f"({(gain['ratio'] - 1) * 100:+.1f} %, 95 % interval {low:+.1f} % to {high:+.1f} %, {gain['num_pairs']} "
        f"pairs): {verdict}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", default="3m", help="time of the measurement")
    parser.add_argument("--rate", default="", help="measure also over a loopback of this rate, as tc writes it: 3gbit")
    parser.add_argument("--json", type=Path, default=Path(__file__).with_suffix(".json"), help="figures go here")
    parser.add_argument("--guide", type=Path, help="write the table and the measurement into this document")
    options = parser.parse_args()
    rates = ["", *([options.rate] if options.rate else [])]
    found = {"simulated": simulated(), "measured": [measured(options.budget, rate) for rate in rates]}
    options.json.write_text(json.dumps(found, indent=1) + "\n")
    text = "\n\n".join([table(found["simulated"]), *map(sentence, found["measured"])])
    print(text)
    if options.guide is not None:
        whole = options.guide.read_text("utf-8")
        head, _, rest = whole.partition(START)
        options.guide.write_text(f"{head}{START}\n{text}\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
