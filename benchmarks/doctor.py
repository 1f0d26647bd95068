"""How fast `jumar doctor` reads logs, and in how much memory: large, packed and growing ones, those of many ranks.

    python benchmarks/doctor.py [--folder DIR] [--megabytes 1024] [--ranks 1024] [--rank-megabytes 2] [--json FILE]

The logs are made up (`doctor_logs.py`) and written before the clock starts, so they come from the page cache. Each
reading is a process of its own, its start included. Memory is the greatest sum of the resident sizes of all processes
of the command; pages that they share count in each.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from doctor_logs import FAILED, LAST_ERROR, MISSING, SILENT, write_log, write_ranks

MIB = 2**20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def command(*arguments: str | Path) -> list[str]:
    """Return the command line of the doctor."""
    return [sys.executable, "-m", "jumar", "doctor", *map(str, arguments)]


def family(pid: int) -> Iterator[int]:
    """Yield a process and all below it."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        threads = [thread.name for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return
    for thread in threads:
        try:
            children += Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
        except OSError:
            continue
    for child in dict.fromkeys(map(int, children)):
        yield from family(child)


def resident_bytes(pid: int) -> int:
    """Return the resident size of a process and all below it."""
    total = 0
    for one in set(family(pid)):
        try:
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * _PAGE_BYTES
        except OSError:
            continue
    return total


def run(arguments: Sequence[str]) -> tuple[float, int, str]:
    """Return seconds, greatest memory in bytes, and what a command printed."""
    with tempfile.TemporaryFile("w+") as out:
        start = time.perf_counter()
        process = subprocess.Popen(arguments, stdout=out, stderr=subprocess.DEVNULL, text=True)
        most = 0
        while process.poll() is None:
            most = max(most, resident_bytes(process.pid))
            time.sleep(0.02)
        seconds = time.perf_counter() - start
        out.seek(0)
        return seconds, most, out.read()


def measured(path: Path, size_bytes: int, rounds: int) -> dict[str, Any]:
    """Return what reading `path` takes; `size_bytes` are those of the lines, unpacked."""
    runs = [run(command(path, "--json", "--fail-on", "never")) for _ in range(rounds)]
    seconds = [one[0] for one in runs]
    first = json.loads(runs[0][2])["first"]
    return {
        "megabytes": round(size_bytes / 1e6), "seconds": round(statistics.median(seconds), 2),
        "spread_s": [round(min(seconds), 2), round(max(seconds), 2)],
        "mb_per_s": round(size_bytes / 1e6 / statistics.median(seconds)),
        "peak_mb": round(max(one[1] for one in runs) / 1e6), "first": first and first["message"],
    }  # fmt: skip


def large(folder: Path, megabytes: int, rounds: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the cases of large logs."""
    for name, files, kind, size in (
        ("plog, 1 file", 1, "plog", megabytes), ("plog, 16 files", 16, "plog", megabytes),
        ("log of Python", 1, "python", megabytes // 4), ("log in JSON lines", 1, "json", megabytes // 4),
    ):  # fmt: skip
        logs = folder / "large"
        logs.mkdir()
        for index in range(files):
            last = LAST_ERROR if index == files - 1 else ""
            write_log(logs / f"plog-{index}.log", size * MIB // files, kind=kind, seed=index, last=last)
        total = sum(path.stat().st_size for path in logs.iterdir())
        yield name, measured(logs, total, rounds)
        if name == "plog, 1 file":
            (path,) = logs.iterdir()
            with path.open("rb") as file:
                part = file.read(megabytes * MIB // 4)
            yield from packed(folder, part, rounds)
        shutil.rmtree(logs)


def packed(folder: Path, data: bytes, rounds: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the cases of packed logs."""
    import pyarrow

    path = folder / "packed.log"
    path.write_bytes(gzip.compress(data, 3))
    yield "plog, gz", measured(path, len(data), rounds)
    path.write_bytes(pyarrow.compress(data, codec="zstd", asbytes=True))
    yield "plog, zst", measured(path, len(data), rounds)
    path.unlink()


def cpu_s(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def followed(folder: Path, mb_per_s: float, seconds: float) -> dict[str, Any]:
    """Return how `--follow` keeps up with a log that grows by `mb_per_s`, and what it takes when nothing comes."""
    source, path = folder / "source.log", folder / "grows.log"
    write_log(source, int(mb_per_s * 1e6), kind="plog")
    data = source.read_bytes()
    path.touch()
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command("--follow", path, "--json", "--fail-on", "never"), stdout=out, text=True)
        time.sleep(3)
        idle_from = cpu_s(process.pid)
        time.sleep(5)
        idle = (cpu_s(process.pid) - idle_from) / 5
        start, busy_from, written, portion = time.perf_counter(), cpu_s(process.pid), 0, len(data) // 20
        with path.open("ab", buffering=0) as file:
            while (now := time.perf_counter() - start) < seconds:
                due = int(now * mb_per_s * 1e6)
                while written < due:
                    at = written % (len(data) - portion)
                    written += file.write(data[at : at + portion])
                time.sleep(0.01)
            file.write(b"\n" + LAST_ERROR.encode() + b"\n")
        end = time.perf_counter()
        while LAST_ERROR[:6] not in _so_far(out) and time.perf_counter() - end < 60:
            time.sleep(0.02)
        lag, busy = time.perf_counter() - end, cpu_s(process.pid) - busy_from
        memory = resident_bytes(process.pid)
        process.terminate()
        process.wait()
    return {
        "mb_per_s": round(written / 1e6 / seconds, 1), "seconds": seconds, "told_after_s": round(lag, 2),
        "cores": round(busy / (seconds + lag), 2), "idle_cores": round(idle, 4), "memory_mb": round(memory / 1e6),
    }  # fmt: skip


def _so_far(out: Any) -> str:
    return os.pread(out.fileno(), 2**20, 0).decode()


def many(folder: Path, ranks: int, megabytes: float) -> dict[str, Any]:
    """Return what reading the logs of many ranks takes, and whether the answer is right."""
    logs = folder / "ranks"
    logs.mkdir()
    write_ranks(logs, ranks, int(megabytes * MIB))
    total = sum(path.stat().st_size for path in logs.iterdir())
    seconds, most, page = run(command(logs, "--fail-on", "never"))
    shutil.rmtree(logs)
    names = (f"rank {FAILED}", "out of memory", str(SILENT), f"{MISSING[0]}-{MISSING[-1]}")
    return {
        "ranks": ranks, "megabytes": round(total / 1e6), "seconds": round(seconds, 1),
        "mb_per_s": round(total / 1e6 / seconds), "peak_mb": round(most / 1e6), "lines_of_the_page": page.count("\n"),
        "not_named": [name for name in names if name not in page],
    }  # fmt: skip


def main() -> None:
    """Write the logs, read them, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where logs are written; they are removed again")
    parser.add_argument("--megabytes", type=int, default=1024, help="of a large log, in 2**20 bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--rank-megabytes", type=float, default=2)
    parser.add_argument("--json", type=Path, help="where the figures are kept")
    options = parser.parse_args()
    result: dict[str, Any] = {
        "machine": {
            "processor": platform.processor() or platform.machine(), "cores": len(os.sched_getaffinity(0)),
            "load": [round(load, 1) for load in os.getloadavg()], "python": platform.python_version(),
            "numpy": version("numpy"), "pyarrow": version("pyarrow"),
        },
    }  # fmt: skip
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        for case, figures in large(folder, options.megabytes, options.rounds):
            result[case] = figures
            print(case, figures, flush=True)
        result["follow"] = followed(folder, 50, 10)
        print("follow", result["follow"], flush=True)
        result["many ranks"] = many(folder, options.ranks, options.rank_megabytes)
        print("many ranks", result["many ranks"], flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
