"""Write tests/slow.txt, the tests that `pytest -m "not slow"` leaves out because of the time they take, and
tests/sampled.txt, the tests with so many slow cases that only every Nth runs without `--full`.

    PYTHONPATH=scripts TEST_TIMES=times.txt pytest -n 2 --full -p list_slow_tests
    python scripts/list_slow_tests.py times.txt

pytest loads this file as a plug-in, which writes one line a test: seconds of the processor (its children's too) and
seconds of the clock. The clock depends on what else the machine does, so it counts only when it is far above.
A test over a limit is listed by `file.py::name[parameters]`. A file whose tests are all above it keeps its quickest,
so that the quick part of the suite touches every file. Tests that were listed and are not in the report stay listed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).resolve().parents[1] / "tests"
MANY, DOZEN = 40, 12
KEPT_S = 3.0
"""A file's quickest test is listed too when it takes longer than this."""


class Times(NamedTuple):
    """Seconds that one test takes."""

    processor: float
    clock: float


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what the test took."""
    began, before = time.perf_counter(), sum(os.times()[:4])
    result = yield
    with Path(os.environ["TEST_TIMES"]).open("a", encoding="utf-8") as file:
        file.write(f"{sum(os.times()[:4]) - before:.3f} {time.perf_counter() - began:.3f} {item.nodeid}\n")
    return result


def times(text: str) -> dict[str, Times]:
    """Return test to times from the plug-in's report."""
    rows = (line.split(" ", 2) for line in text.splitlines())
    return {test: Times(float(processor), float(clock)) for processor, clock, test in rows}


def slow_tests(measured: dict[str, Times], limit_s: float, clock_limit_s: float) -> set[str]:
    """Return the tests over a limit."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in measured:
        by_file[test.partition("::")[0]].append(test)
    slow = {test for test, took in measured.items() if took.processor > limit_s or took.clock > clock_limit_s}
    for tests in by_file.values():
        quickest = min(tests, key=lambda test: measured[test].processor)
        if slow.issuperset(tests) and measured[quickest].processor < KEPT_S:
            slow.discard(quickest)
    return slow


def sampled_tests(measured: dict[str, Times], budget_s: float) -> dict[str, int]:
    """Return test function to N, where all its cases together take longer than the budget: every Nth fits in.

    A test of 40 cases or more keeps a dozen.
    """
    cases: dict[str, list[float]] = defaultdict(list)
    for test, took in measured.items():
        cases[listed_name(test).partition("[")[0]].append(took.clock)
    found = {}
    for name, seconds in cases.items():
        allowed = budget_s if len(seconds) < MANY else max(budget_s, DOZEN * sum(seconds) / len(seconds))
        if len(seconds) > 1 and sum(seconds) > allowed:
            found[name] = max(2, math.ceil(sum(seconds) / allowed))
    return found


def write_sampled(measured: dict[str, Times], budget_s: float) -> int:
    """Write tests/sampled.txt and return how many tests it has; those left out by hand (0) stay."""
    path = TESTS / "sampled.txt"
    before = dict(line.split() for line in path.read_text("utf-8").splitlines())
    files = {file.name for file in TESTS.rglob("test_*.py")}
    by_hand = {name: 0 for name, every in before.items() if every == "0" and name.partition("::")[0] in files}
    listed = {**sampled_tests(measured, budget_s), **by_hand}
    path.write_text("".join(f"{name} {listed[name]}\n" for name in sorted(listed)), "utf-8")
    return len(listed)


def listed_name(test: str) -> str:
    """Return `file.py::name[parameters]` of a test's path and name."""
    file, _, name = test.partition("::")
    return f"{Path(file).name}::{name}"


def main() -> None:
    """Read the report and write the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="the file that TEST_TIMES named")
    parser.add_argument("--limit", type=float, default=0.2, metavar="SECONDS", help="of the processor")
    parser.add_argument("--clock-limit", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument("--budget", type=float, default=8.0, metavar="SECONDS", help="of all cases of one test")
    arguments = parser.parse_args()
    measured = times(arguments.report.read_text("utf-8"))
    files = {path.name for path in TESTS.rglob("test_*.py")}
    before = set((TESTS / "slow.txt").read_text("utf-8").splitlines()) - {listed_name(test) for test in measured}
    listed = {listed_name(test) for test in slow_tests(measured, arguments.limit, arguments.clock_limit)}
    listed |= {line for line in before if line.partition("::")[0] in files}
    (TESTS / "slow.txt").write_text("".join(f"{test}\n" for test in sorted(listed)), "utf-8")
    number = write_sampled(measured, arguments.budget)
    sys.stdout.write(f"{len(listed)} tests are listed as slow, {number} as sampled\n")


if __name__ == "__main__":
    main()
