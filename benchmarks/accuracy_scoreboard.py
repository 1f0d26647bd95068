"""Injected faults and healthy pairs on four models: what `compare` answers. Writes the table that is published.

    python benchmarks/accuracy_scoreboard.py [--values sketch,stats,tensors] [--seeds 3] [--only TEXT] [--models gpt]
    python benchmarks/accuracy_scoreboard.py --publish      # also writes docs/accuracy-scoreboard.md and the .json

Every case is two trainings of three steps under the observer and one comparison with default settings.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "accuracy"))

from scoreboard.cases import all_cases  # noqa: E402 - found by the line above
from scoreboard.harness import Result, Runner  # noqa: E402 - as above


def main() -> None:
    """Run the cases asked for and print those whose answer is not the right one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", default="sketch,stats,tensors")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--models", default="")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    cases = [
        case
        for case in all_cases()
        if options.only in case.name and (not options.models or case.model in options.models.split(","))
    ]
    results: list[Result] = []
    started = time.monotonic()
    for values in options.values.split(","):
        for seed in range(options.seeds):
            with tempfile.TemporaryDirectory() as folder:
                runner = Runner(Path(folder))
                for case in cases:
                    try:
                        result = runner.run(case, values, seed)
                    except Exception as error:
                        print(
                            f"CRASH {case.name} {case.model} {values} {seed}: {type(error).__name__} {error}",
                            flush=True,
                        )
                        continue
                    results.append(result)
                    if options.all or result.outcome not in {"exact", "quiet"}:
                        print(
                            f"{result.outcome:12} {result.case:34} {result.model:10} {values:8} {seed} {result.answer}  [{result.truth}] {result.multiple}",
                            flush=True,
                        )
    counts: dict[str, int] = {}
    for result in results:
        key = f"{'healthy' if result.healthy else 'fault'} {result.values} {result.outcome}"
        counts[key] = counts.get(key, 0) + 1
    for key in sorted(counts):
        print(f"{counts[key]:5} {key}")
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
