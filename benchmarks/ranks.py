"""How fast a folder of 1,024 ranks' traces is judged, and in how much memory.

    python benchmarks/ranks.py [--ranks N] [--megabytes N] [--json FILE]

Traces are made up here as Kineto writes them: steps of operators and one all-reduce that all ranks end together; each
rank begins it some microseconds apart, and one rank 8 ms late in every step. 1,024 ranks of 20 MB are 20 GB; they are
deleted afterwards. Jumar runs in a process of its own; the answer must name the late rank.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from timeline import OPERATOR, machine

STEP_US = 100_000
PER_STEP = 1000
BYTES = 390
"""Of one event."""
VARIANTS = 8
"""Bodies that differ by their jitter; ranks share them, because making 20 GB of text anew would take an hour."""
CHILD = """
import json, resource, sys, time
from pathlib import Path
start = time.perf_counter()
from jumar.advise.look import look
first, *others = look(Path(sys.argv[1]))
wall = time.perf_counter() - start
named = {finding.code: finding.evidence.get("rank") for finding in first.findings}
peak = lambda who: resource.getrusage(who).ru_maxrss * 1024 / 1e6
own, workers = peak(resource.RUSAGE_SELF), peak(resource.RUSAGE_CHILDREN)
reasons = [gap.reason for gap in first.not_checked if gap.name == "all ranks in full"]
print(json.dumps({"wall_s": round(wall, 1), "peak_mb": round(own, 1), "peak_mb_of_a_worker": round(workers, 1),
                  "JM440": named.get("JM440"), "JM441": named.get("JM441"), "said": reasons}))
"""


def body(steps: int, late_us: int, jitter_us: int) -> str:
    """Return the events of one rank as text."""
    found = []
    for step in range(steps):
        begin = 4_811_798_850_000 + step * STEP_US
        rows: list[tuple[str, str, int, int]] = [("user_annotation", f"ProfilerStep#{step}", begin, STEP_US)]
        length = (60_000 + late_us) // PER_STEP
        rows += [("cpu_op", f"aten::{'addmm' if at % 3 else 'relu'}", begin + at * length, length - 1)
                 for at in range(PER_STEP)]  # fmt: skip
        meets = begin + 60_000 + late_us + (jitter_us * (step % 5)) % 40
        rows.append(("cpu_op", "gloo:all_reduce", meets, begin + 90_000 - meets))
        found += [
            OPERATOR % (kind, name, ts, 0, duration, 0, at, 256, at % 512, at)
            for at, (kind, name, ts, duration) in enumerate(rows)
        ]
    return ",\n".join(found)


def write(folder: Path, ranks: int, megabytes: float, late: int) -> int:
    """Write the traces; return their bytes."""
    steps = max(round(megabytes * 1e6 / BYTES / (PER_STEP + 2)), 4)
    bodies = [body(steps, 0, 7 * variant) for variant in range(VARIANTS)]
    slow = body(steps, 8000, 3)
    size = 0
    for rank in range(ranks):
        head = (
            f'{{"schemaVersion": 1, "distributedInfo": {{"rank": {rank}, "world_size": {ranks}}},\n"traceEvents": [\n'
        )
        path = folder / f"rank-{rank}.json"
        path.write_text(head + (slow if rank == late else bodies[rank * 5 % VARIANTS]) + "]}\n", "utf-8")
        size += path.stat().st_size
    return size


def main() -> None:
    """Write the traces, judge them, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--megabytes", type=float, default=20.0, help="of each trace")
    parser.add_argument("--json", type=Path, help="where the figures are kept")
    options = parser.parse_args()
    late = options.ranks * 2 // 3
    with tempfile.TemporaryDirectory() as folder:
        size = write(Path(folder), options.ranks, options.megabytes, late)
        done = subprocess.run([sys.executable, "-c", CHILD, folder], check=True, capture_output=True, text=True)
    result: dict[str, Any] = {
        "machine": machine(), "ranks": options.ranks, "gigabytes": round(size / 1e9, 2), "late_rank": late,
        **json.loads(done.stdout.splitlines()[-1]),
    }  # fmt: skip
    text = json.dumps(result, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
