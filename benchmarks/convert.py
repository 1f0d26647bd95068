"""How fast sources are converted: lines a second with and without CUDA, one core, all cores, and a second time.

    python benchmarks/convert.py [FOLDER] [--quick] [--rounds N] [--rules] [--json FILE]

Without a folder it makes up a repository of 200,000 lines (benchmarks/convert_tree.py). Single files
are converted in this process and timed by its processor time, which other programs disturb less than the
clock; whole trees are converted in processes of their own and timed by the clock, first without what earlier
runs left, then again with it. Figures are medians with the least and the greatest of the rounds.
`--rules` shows instead which rules the time goes to.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import convert_tree

from jumar.base.host import usable_cores
from jumar.convert import Skip, convert_source
from jumar.convert.facts.python import summarise
from jumar.convert.rules.order import ORDER

CHILD = """
import json, sys, time
from pathlib import Path
from jumar.convert import convert_tree
start = time.perf_counter()
conversion = convert_tree(Path(sys.argv[1]), jobs=int(sys.argv[2]), cache=sys.argv[3] == "cache")
print(json.dumps([time.perf_counter() - start, len(conversion.files), conversion.num_edits, len(conversion.failures)]))
"""

SMALLEST = {"without": 20_000, "with": 3_000}
"""Lines a second on one core that Jumar promises."""


def files_of(root: Path, limit: int) -> dict[str, list[bytes]]:
    """Return sources without and with anything to convert, up to `limit` lines of each."""
    found: dict[str, list[bytes]] = {"without": [], "with": []}
    lines = Counter[str]()
    for path in sorted(root.rglob("*.py")):
        data = path.read_bytes()
        kind = "without" if isinstance(convert_source(data, path.name), Skip) else "with"
        if lines[kind] < limit:
            found[kind].append(data)
            lines[kind] += data.count(b"\n")
    return found


def convert_alone(sources: list[bytes]) -> float:
    """Return the processor time of what a file costs on one core: its summary for the others, and its conversion."""
    start = time.process_time()
    for data in sources:
        parses = summarise(data).parses
        convert_source(data, "a.py", known_python=parses)
    return time.process_time() - start


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values), "greatest": max(values)}


def single_files(root: Path, limit: int, num_rounds: int) -> dict[str, Any]:
    figures = {}
    for kind, sources in files_of(root, limit).items():
        lines = sum(data.count(b"\n") for data in sources)
        if lines:
            convert_alone(sources[:1])
            rates = [lines / convert_alone(sources) for _ in range(num_rounds)]
            figures[kind] = {"lines": lines, "files": len(sources), "lines_per_second": spread(rates)}
    return figures


def convert_in_child(root: Path, jobs: int, cache: Path | None) -> list[float]:
    environment = {**os.environ, **({"JUMAR_CACHE_DIR": str(cache)} if cache else {})}
    command = [sys.executable, "-c", CHILD, str(root), str(jobs), "cache" if cache else "none"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return list(json.loads(done.stdout))


def whole_trees(root: Path, num_lines: int, num_rounds: int) -> dict[str, Any]:
    ways: dict[str, list[float]] = {"one core": [], "all cores": [], "again": []}
    about: list[float] = []
    for _ in range(num_rounds):
        with tempfile.TemporaryDirectory() as cache:
            about = convert_in_child(root, 1, None)
            ways["one core"].append(about[0])
            ways["all cores"].append(convert_in_child(root, usable_cores(), Path(cache))[0])
            ways["again"].append(convert_in_child(root, usable_cores(), Path(cache))[0])
    times = {
        way: {"seconds": spread(found), "lines_per_second": num_lines / statistics.median(found)}
        for way, found in ways.items()
    }
    again = [first / second for first, second in zip(ways["all cores"], ways["again"], strict=True)]
    return {
        "python_lines": num_lines,
        "files": about[1],
        "edits": about[2],
        "failures": about[3],
        "ways": times,
        "times_faster_again": spread(again),
    }


def time_of_rules(root: Path, limit: int) -> Iterator[tuple[str, float]]:
    """Yield (rule, share of the time of converting files with CUDA), the slowest first."""
    spent = Counter[str]()

    def timed(name: str, check: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(context: Any) -> Any:
            start = time.process_time()
            found = list(check(context))
            spent[name] += time.process_time() - start
            return found

        return run

    sources = files_of(root, limit)["with"]
    for step in ORDER:
        module: Any = step.load()
        module.find = timed(f"{step.code} {module.RULE.name}", module.find)
    total = convert_alone(sources)
    yield "everything else", 1 - sum(spent.values()) / total
    yield from ((name, seconds / total) for name, seconds in spent.most_common())


def show(figures: dict[str, Any]) -> None:
    for kind, found in figures["single_files"].items():
        rate = found["lines_per_second"]
        promise = f"promised {SMALLEST[kind]:,}" if kind in SMALLEST else ""
        print(
            f"files {kind} CUDA, one core: {rate['median']:10,.0f} lines/s"
            f" ({rate['least']:,.0f} to {rate['greatest']:,.0f}; {promise})"
        )
    tree = figures["tree"]
    print(f"tree of {tree['files']:,} files, {tree['python_lines']:,} lines of Python, {tree['edits']:,} edits:")
    for way, found in tree["ways"].items():
        seconds = found["seconds"]
        print(
            f"  {way:10}{seconds['median']:8.2f} s ({seconds['least']:.2f} to {seconds['greatest']:.2f})"
            f"{found['lines_per_second']:12,.0f} lines/s"
        )
    print(f"  the second run is {tree['times_faster_again']['median']:.1f} times faster")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="sources to convert instead of made-up ones")
    parser.add_argument("--quick", action="store_true", help="20,000 lines, one round: a look, no figures to quote")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rules", action="store_true", help="show which rules the time goes to")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    num_rounds, num_lines = (1, 20_000) if options.quick else (options.rounds, 200_000)
    with tempfile.TemporaryDirectory() as made_up:
        root = options.folder or Path(made_up)
        if options.folder is None:
            convert_tree.write(root, num_lines)
        limit = num_lines // 8
        if options.rules:
            for name, share in time_of_rules(root, limit):
                print(f"{share:7.1%}  {name}")
            return
        lines = sum(path.read_bytes().count(b"\n") for path in root.rglob("*.py"))
        figures = {
            "single_files": single_files(root, limit, num_rounds),
            "tree": whole_trees(root, lines, num_rounds),
        }
    show(figures)
    if options.json:
        about = {
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            "python": platform.python_version(),
            "libcst": importlib.metadata.version("libcst"),
            "machine": platform.machine(),
            "processor": processor(),
            "cores": usable_cores(),
            "load": os.getloadavg()[0],
            "rounds": num_rounds,
            "source": "made up" if options.folder is None else "a folder",
        }
        options.json.write_text(json.dumps({**about, **figures}, indent=2) + "\n")


def processor() -> str:
    """Return the processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


if __name__ == "__main__":
    main()
