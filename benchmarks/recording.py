"""What recording costs a training step: CPU time of the whole process, against the step without recording.

    python benchmarks/recording.py [--quick] [--modes 'off;stats;...'] [--msprobe PYTHON] [--json FILE]

The model is a GPT of 6 layers, width 256, 4 heads, vocabulary 4096 on 4x128 tokens with AdamW and an
explicit causal mask, one thread. Each mode is a process of its own, and the processes take a step in turn, so that
a busy or throttled machine slows them alike: a ratio is the median over the turns of a mode's step against the step
without recording in the same turn, with the 10th and the 90th percentile beside it. Writing the steps to disk is
included. `raw` is the size of the distinct tensor states that the rows of a step saw, `mb` what a step left on the
disk.

PyTorch's DebugMode runs beside, and with `--msprobe` (the Python of an environment with mindstudio-probe and
torch) its L1 levels, against the step without it there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from recording_worker import DEBUG_MODES, MSPROBE_MODES, OFF, RECORDED, Figures

WORKER = Path(__file__).with_name("recording_worker.py")


class Worker:
    """A process that takes a training step in one mode when it is told to."""

    def __init__(self, mode: str, python: str) -> None:
        environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        self._process = subprocess.Popen(
            [python, str(WORKER), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.mode = mode
        self.turns: list[Figures] = []
        self._told()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def turn(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.turns.append(self._told())

    def left(self) -> Figures:
        """Return what the last step left on the disk, and end the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._told()

    def _told(self) -> Figures:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("FIGURES"):
                figures: Figures = json.loads(line.removeprefix("FIGURES"))
                return figures
        sys.exit(f"the process of mode {self.mode!r} ended with {self._process.wait()}")


def measured(modes: Iterable[str], num_turns: int, python: str = sys.executable) -> dict[str, Figures]:
    """Return the figures of every mode and of the step without recording, all in one Python."""
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(mode, python)) for mode in (OFF, *modes)]
        for number in range(num_turns):
            sys.stderr.write(f"turn {number + 1} of {num_turns}\n")
            for worker in workers if number % 2 else reversed(workers):
                worker.turn()
                os.sync()  # what this mode has written must not be written out at the cost of the next one
        return {worker.mode: summary(worker.turns, workers[0].turns) | worker.left() for worker in workers}


def summary(mine: list[Figures], base: list[Figures]) -> Figures:
    """Return medians over the turns, and of the ratios within the turns the median and two percentiles."""
    ratios = [one["cpu_ms"] / other["cpu_ms"] for one, other in zip(mine, base, strict=True)]
    tenths = statistics.quantiles(ratios, n=10)
    medians = {name: statistics.median(one[name] for one in mine) for name in mine[0]}
    return medians | {"ratio": statistics.median(ratios), "tenth": tenths[0], "ninetieth": tenths[-1]}


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    model = next((line for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "")
    return {
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {model.partition(':')[2].strip()}, {os.cpu_count()} cores",
        "load": [round(load, 1) for load in os.getloadavg()],
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text("utf-8").splitlines() if Path(path).exists() else []


def chosen(text: str | None) -> list[str]:
    """Return the modes that were asked for; raise SystemExit for one that there is not."""
    known = [*RECORDED, *DEBUG_MODES]
    modes = [mode.strip() for mode in text.split(";")] if text else known
    if unknown := [mode for mode in modes if mode not in (OFF, *known)]:
        sys.exit(f"--modes takes {'; '.join(known)}; not {'; '.join(unknown)}")
    return [mode for mode in modes if mode != OFF]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer turns: a look, no figures to quote")
    parser.add_argument("--modes", help="some modes, separated by semicolons")
    parser.add_argument("--msprobe", metavar="PYTHON", help="the Python of an environment with mindstudio-probe")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    num_turns = 8 if options.quick else 80
    modes = chosen(options.modes)
    about = machine()
    figures = measured(modes, num_turns)
    if options.msprobe:
        of_peer = measured(MSPROBE_MODES, num_turns // 4, options.msprobe)  # far from 1: fewer turns tell
        figures |= {"off, in the peer's Python": of_peer.pop(OFF), **of_peer}
    print(f"{'mode':26}{'CPU ms':>9}{'ratio':>7}{'10 %':>7}{'90 %':>7}{'rows':>7}{'MB':>9}{'raw MB':>9}")
    for mode, row in figures.items():
        sizes = f"{row.get('rows', 0):7.0f}{row.get('mb', 0):9.2f}{row.get('raw_mb', 0):9.2f}"
        print(f"{mode:26}{row['cpu_ms']:9.1f}{row['ratio']:7.2f}{row['tenth']:7.2f}{row['ninetieth']:7.2f}{sizes}")
    if options.json:
        about["load at the end"] = [round(load, 1) for load in os.getloadavg()]
        options.json.write_text(json.dumps({**about, "turns": num_turns, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
