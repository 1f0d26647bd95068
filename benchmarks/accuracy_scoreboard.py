"""Injected faults and healthy pairs on four models: what `jumar compare` answers with its default settings.

    python benchmarks/accuracy_scoreboard.py --json results.json [--values sketch] [--seeds 2] [--models gpt+cnn]
    python benchmarks/accuracy_scoreboard.py --calibrate --json calibration.json [--models gpt]
    python benchmarks/accuracy_scoreboard.py --publish results.json … calibration.json …

The first form runs cases, each two trainings under the observer and one comparison; the second measures healthy
pairs in multiples of the noise floor; the third merges such files into benchmarks/accuracy_scoreboard.json and
writes docs/accuracy-scoreboard.md and the tables of docs/noise-floor.md from it.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "comparison"))

from scoreboard.cases import all_cases, healthy  # noqa: E402 - found by the line above
from scoreboard.faults import Case  # noqa: E402 - as above
from scoreboard.harness import Runner  # noqa: E402 - as above
from scoreboard.publish import calibration_tables, scoreboard_page  # noqa: E402 - as above

KEPT = HERE / "accuracy_scoreboard.json"
PAGE = HERE.parent / "docs" / "accuracy-scoreboard.md"
FLOOR_PAGE = HERE.parent / "docs" / "noise-floor.md"
FLOORS: tuple[tuple[str, ...], ...] = ((), ("ulp",), ("threads", "kernels"))


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", default="sketch,stats,tensors")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--models", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--calibrate", action="store_true")
    parser.add_argument("--publish", type=Path, nargs="+", metavar="FILE")
    options = parser.parse_args()
    if options.publish:
        publish(options.publish)
        return
    chosen = [case for case in (healthy() if options.calibrate else all_cases()) if _is_chosen(case, options)]
    run = calibrated if options.calibrate else answered
    started = time.monotonic()
    found = []
    for result in run(chosen, options.values.split(","), options.seeds):
        found.append(result)
        if options.json:  # after each: a run that is cut short leaves what it found
            options.json.write_text(json.dumps({"calibration" if options.calibrate else "results": found}, indent=1))
    print(f"{len(found)} results in {time.monotonic() - started:.0f} s")


def _is_chosen(case: Case, options: argparse.Namespace) -> bool:
    return options.only in case.name and (not options.models or case.model in options.models.split("+"))


def answered(cases: Sequence[Case], kinds: Sequence[str], num_seeds: int) -> Iterator[dict[str, Any]]:
    """Yield the result of each case; print those that are not as they should be."""
    for values in kinds:
        for seed in range(num_seeds):
            with tempfile.TemporaryDirectory() as folder:
                runner = Runner(Path(folder))
                for case in cases:
                    result = runner.run(case, values, seed)
                    if result.outcome not in {"exact", "quiet"}:
                        place = f"{result.case:34} {result.model:10} {values:8} {seed}"
                        print(f"{result.outcome:12} {place} {result.answer}  [{result.truth}]", flush=True)
                    yield asdict(result)


def calibrated(cases: Sequence[Case], kinds: Sequence[str], num_seeds: int) -> Iterator[dict[str, Any]]:
    """Yield, for each healthy pair and way to find the floor, quantiles of error by floor over all operators."""
    import numpy as np

    for values in kinds:
        for seed in range(num_seeds):
            with tempfile.TemporaryDirectory() as folder:
                runner = Runner(Path(folder))
                for case in cases:
                    for vary in FLOORS:
                        multiples = runner.multiples(case, values, seed, vary)
                        if not multiples:
                            continue
                        quantiles = [float(q) for q in np.quantile(multiples, [0.5, 0.99, 1.0])]
                        floor = "+".join(vary) or "estimated"
                        print(f"{case.model:10} {case.name:34} {values:8} {seed} {floor:16} {quantiles}", flush=True)
                        yield {
                            "case": case.name,
                            "model": case.model,
                            "values": values,
                            "seed": seed,
                            "floor": floor,
                            "num_outputs": len(multiples),
                            "median": quantiles[0],
                            "q99": quantiles[1],
                            "greatest": quantiles[2],
                        }


def publish(files: Sequence[Path]) -> None:
    """Merge the files into the kept one, the latest answer to a question winning, and write the pages."""
    import torch

    kept: dict[str, Any] = {"results": [], "calibration": []}
    for file in (KEPT, *files) if KEPT.exists() else files:
        new = json.loads(file.read_text("utf-8"))
        for part in ("results", "calibration"):
            kept[part] = _merged(kept[part], new.get(part, []))
    kept["environment"] = {
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    PAGE.write_text(scoreboard_page(kept), "utf-8")
    if FLOOR_PAGE.exists():
        before, _, rest = FLOOR_PAGE.read_text("utf-8").partition("<!-- measured -->\n")
        after = rest.partition("<!-- end of measured -->\n")[2]
        tables = calibration_tables(kept)
        FLOOR_PAGE.write_text(f"{before}<!-- measured -->\n{tables}<!-- end of measured -->\n{after}", "utf-8")


def _merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    key = ("case", "model", "operator", "values", "seed", "floor")
    found = {tuple(item.get(name) for name in key): item for item in (*old, *new)}
    return list(found.values())


if __name__ == "__main__":
    main()
