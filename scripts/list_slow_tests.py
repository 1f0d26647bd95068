"""Write tests/slow.txt: the tests that `pytest -m "not slow"` leaves out because of the time they take.

    pytest -n 2 -vv --durations=0 --durations-min=0 > durations.txt
    python scripts/list_slow_tests.py durations.txt

A test whose setup, call and teardown together exceed the limit is listed by `file.py::name[parameters]`. A file whose
tests are all above it keeps its quickest one, so that the quick part of the suite touches every file.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
LINE = re.compile(r"^([\d.]+)s (?:call|setup|teardown) +(tests/\S.*)$")
KEPT_S = 3.0
"""A file's quickest test is listed too when it takes longer than this."""


def durations(text: str) -> dict[str, float]:
    """Return test to seconds from the table of `--durations=0`."""
    seconds: dict[str, float] = defaultdict(float)
    for line in text.splitlines():
        match = LINE.match(line)
        if match:
            seconds[match[2]] += float(match[1])
    return seconds


def slow_tests(seconds: dict[str, float], limit_s: float) -> list[str]:
    """Return `file.py::name[parameters]` of the tests over the limit, sorted."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in seconds:
        by_file[test.partition("::")[0]].append(test)
    slow = {test for test, taken in seconds.items() if taken > limit_s}
    for tests in by_file.values():
        quickest = min(tests, key=lambda test: seconds[test])
        if slow.issuperset(tests) and seconds[quickest] < KEPT_S:
            slow.discard(quickest)
    return sorted(f"{Path(file).name}::{name}" for file, _, name in (test.partition("::") for test in slow))


def main() -> None:
    """Read the report and write the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="output of pytest --durations=0")
    parser.add_argument("--limit", type=float, default=0.5, metavar="SECONDS")
    arguments = parser.parse_args()
    listed = slow_tests(durations(arguments.report.read_text("utf-8")), arguments.limit)
    (TESTS / "slow.txt").write_text("".join(f"{test}\n" for test in listed), "utf-8")
    sys.stdout.write(f"{len(listed)} tests take more than {arguments.limit:g} s\n")


if __name__ == "__main__":
    main()
