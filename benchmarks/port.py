"""How long the main job takes on the shipped examples, and how fast the command line answers.

    python benchmarks/port.py [--rounds N] [--json FILE]

Each figure is the wall time of a whole process: the median of the rounds with their range. The rounds
go over all commands in turn, so that a busy machine slows all alike.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

EXAMPLES = Path(__file__).parents[1] / "examples"
JUMAR = [sys.executable, "-c", "from jumar.cli.main import run; run()"]
COMMANDS = {
    "jumar --help": ["--help"],
    **{
        f"jumar port {name}, 3 steps": ["port", "--force", "-o", f"out-{name}", str(EXAMPLES / name / "train.py")]
        for name in ("imagenet", "shufflenet", "gpt")
    },
}


def seconds(arguments: list[str], folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run([*JUMAR, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name, arguments in COMMANDS.items():
                times[name].append(seconds(arguments, Path(folder)))
    rows = {
        name: {
            "median_s": round(statistics.median(all_), 3),
            "min_s": round(min(all_), 3),
            "max_s": round(max(all_), 3),
        }
        for name, all_ in times.items()
    }
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    document = {
        "date": datetime.date.today().isoformat(),
        "torch": torch.__version__,
        "machine": machine,
        "rounds": options.rounds,
        "wall_time": rows,
    }
    options.json.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    for name, row in rows.items():
        print(f"{name:34} {row['median_s']:8.2f} s   ({row['min_s']:.2f} to {row['max_s']:.2f})")


if __name__ == "__main__":
    main()
