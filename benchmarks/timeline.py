"""How fast a large trace of torch.profiler is read, and in how much memory.

    python benchmarks/timeline.py [--quick] [--rounds N] [--json FILE]

Traces are made up here as Kineto writes them: steps of operators that hold others, with shapes, strides and numbers;
150 MB with 400,000 events, once as one line, and 2 GB. They are deleted afterwards. Each reading runs in a process of
its own, so that its peak memory is its own; the time includes the import of Jumar and not the start of Python.
HolisticTraceAnalysis and msprof-analyze read the same file where they are installed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [],
  "record_shapes": 1,
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1790857026000000000,
  "traceEvents": [
"""
OPERATOR = """\
  {
    "ph": "X", "cat": "%s", "name": "%s", "pid": 4711, "tid": 4711,
    "ts": %d.%03d, "dur": %d.%03d,
    "args": {
      "External id": %d,"Record function id": 0, "Input type": ["float", "float", "float", "Scalar", "Scalar"], \
"Input Strides": [[1], [%d, 1], [1, 256], [], []], "Input Dims": [[256], [%d, 256], [256, 256], [], []], "Ev Idx": %d
    }
  }"""
NAMES = [f"aten::{name}" for name in ("linear", "t", "transpose", "as_strided", "addmm", "expand", "copy_", "relu")]
PER_STEP = 2000

CHILD = """
import json, resource, sys, time
from pathlib import Path
start, cpu = time.perf_counter(), time.process_time()
{work}
wall, cpu = time.perf_counter() - start, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
print(json.dumps({{"wall_s": wall, "cpu_s": cpu, "peak_mb": peak, "events": found}}))
"""
TOTALS = "from jumar.timeline.totals import totals; found = totals(sys.argv[1]).num_events"
READING = "from jumar.timeline.reading import read_timeline; found = len(read_timeline(sys.argv[1]).events)"
DECOMPOSING = (
    "from jumar.timeline.reading import read_timeline; from jumar.timeline.decompose import decompose; "
    "timeline = read_timeline(sys.argv[1]); found = len(timeline.events); decompose(timeline)"
)
WITHOUT_MSGSPEC = "from jumar.timeline.chrome import decode; decode.fast_events = lambda fields: None; "
ADVISING = "from jumar.advise.look import look; found = len(look(Path(sys.argv[1])))"
JUMAR = {"totals": TOTALS, "read_timeline": READING, "read_timeline, decompose": DECOMPOSING, "advise": ADVISING}
PEERS = {
    "HolisticTraceAnalysis": (
        "from hta.trace_analysis import TraceAnalysis; "
        "found = len(TraceAnalysis(trace_files={0: sys.argv[1]}).t.get_trace(0))"
    ),
    "msprof-analyze": (
        "import shutil, subprocess; found = 0; folder = Path(sys.argv[1]).parent / 'x_ascend_pt'; "
        "target = folder / 'ASCEND_PROFILER_OUTPUT'; target.mkdir(parents=True, exist_ok=True); "
        "shutil.copy(sys.argv[1], target / 'trace_view.json'); "
        "subprocess.run(['msprof-analyze', 'advisor', 'all', '-d', folder, '-o', folder], check=True)"
    ),
}
"""Distribution -> what it does with the file of 150 MB; only where it is installed."""
OTHERS = {"totals without msgspec": WITHOUT_MSGSPEC + TOTALS, **PEERS}


def events(number: int) -> Iterator[str]:
    """Yield the text of events: steps with operators of two levels below an annotation."""
    time = 4_811_798_850_129_000
    for index in range(number):
        place = index % PER_STEP
        name, length, kind = NAMES[index % 8], 1507, "cpu_op"
        if place == 0:
            name, length, kind = (
                f"ProfilerStep#{index // PER_STEP}",
                PER_STEP // 4 * (3 * 2013 + 3501),
                "user_annotation",
            )
        elif place % 4 == 1:
            name, length = NAMES[0], 9500
        yield OPERATOR % (kind, name, *divmod(time, 1000), *divmod(length, 1000), index, 256, index % 512, index)
        time += 3501 if place % 4 == 0 else 2013


def write(path: Path, number: int, *, one_line: bool = False) -> None:
    """Write a trace of so many events."""
    with path.open("w", encoding="utf-8") as file:
        file.write(HEAD.replace("\n", "") if one_line else HEAD)
        for index, text in enumerate(events(number)):
            file.write("," * (index > 0) if one_line else ",\n" * (index > 0))
            file.write(json.dumps(json.loads(text), separators=(",", ":")) if one_line else text)
        file.write('],"traceName": "made up" }\n')


def measured(work: str, path: Path, rounds: int) -> dict[str, Any]:
    """Return median, least and greatest of each figure over some runs in processes of their own."""
    runs = []
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", CHILD.format(work=work), str(path)], check=False, capture_output=True, text=True
        )
        if done.returncode:
            return {"failed": done.stderr.strip().splitlines()[-1]}
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    result: dict[str, Any] = {"events": runs[0]["events"], "rounds": rounds}
    for name, digits in (("wall_s", 3), ("cpu_s", 3), ("peak_mb", 1)):
        values = [run[name] for run in runs]
        result[name] = [round(one, digits) for one in (statistics.median(values), min(values), max(values))]
    return result


def installed(name: str) -> str | None:
    """Return the version of a distribution, None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return {
        "processor": model, "cores": os.cpu_count(), "load": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(), "numpy": installed("numpy"), "msgspec": installed("msgspec"),
    }  # fmt: skip


def main() -> None:
    """Write the traces, read them, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the events")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each reading; a third for what is slow")
    parser.add_argument("--json", type=Path, help="where the figures are kept")
    options = parser.parse_args()
    number = 4_000 if options.quick else 400_000
    results: dict[str, Any] = {"machine": machine(), "columns": "median, least, greatest"}
    with tempfile.TemporaryDirectory() as folder:
        for name, events_written, one_line, works in (
            ("150 MB", number, False, JUMAR | OTHERS),
            ("150 MB, one line", number, True, {"totals": TOTALS}),
            ("2 GB", number * 27 // 2, False, {"totals": TOTALS}),
        ):  # fmt: skip
            path = Path(folder) / "trace.json"
            write(path, events_written, one_line=one_line)
            size = round(path.stat().st_size / 1e6, 1)
            results[name] = {"size_mb": size}
            for what, work in works.items():
                if what in PEERS and not installed(what):
                    continue
                long = events_written > number or what not in JUMAR
                rounds = max(options.rounds // 3, 1) if long else options.rounds
                results[name][what] = measured(work, path, rounds)
            print(name, json.dumps(results[name], indent=1), flush=True)
    results["load after"] = [round(load, 1) for load in os.getloadavg()]
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
