"""The vendor's own tests on the emulated NPU: how many pass, and what the others say.

    git clone https://gitcode.com/Ascend/pytorch && pip install expecttest parameterized scipy pandas einops pyyaml
    python benchmarks/proof/vendor_tests.py pytorch/test [--every 5] [--soc Ascend910B1] [--json FILE]

Each file runs in a process of its own, forked from one that has the device up. A test has a time limit, and so
has a file. Nothing of the tests is part of this project.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

LIMIT_OF_TEST_S, LIMIT_OF_FILE_S = 15, 120
MEMORY_BYTES = 14 * 2**30

REASONS = (
    ("asks for a private name", r"has no attribute|__file__|_C\b"),
    ("imports what is not there", r"ImportError|No module named"),
    ("refused: a dtype that the chip's kernels lack", r"error code is 161002"),
    ("refused: not emulated", r"not emulated|has no kernel"),
    ("expects another text of an error", r"does not match|not found in"),
    ("expects an error", r"not raised"),
)


class TooSlow(BaseException):
    """A test took longer than its limit. No Exception, so that the test does not catch it."""


class Recorder:
    """A pytest plugin that writes one JSON line a test."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def write(self, name: str, outcome: str, text: str = "") -> None:
        self.file.write(json.dumps({"test": name, "outcome": outcome, "text": text[:500]}) + "\n")
        self.file.flush()

    def pytest_runtest_setup(self, item: Any) -> None:
        self.write(item.nodeid, "started")

        def end(*_: Any) -> None:
            raise TooSlow

        signal.signal(signal.SIGALRM, end)
        signal.alarm(LIMIT_OF_TEST_S)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", None)
            text = str(crash or report.longrepr or "")
            self.write(report.nodeid, "too slow" if "TooSlow" in text else report.outcome, text)
        if report.when == "teardown":
            signal.alarm(0)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.write(report.nodeid, "failed", f"ImportError {report.longrepr}")


def run_file(root: Path, path: Path, results: Path) -> None:
    """Run the tests of one file in this process, which ends with it."""
    import pytest

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    os.chdir(path.parent)
    sys.path[:0] = [str(root), str(path.parent)]
    sys.argv = [str(path)]
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:jumar", "-p", "no:xdist", "-c", os.devnull]
    with results.open("w", encoding="utf-8") as file:
        pytest.main([*options, "-W", "ignore", "-o", "python_files=*.py", str(path)], plugins=[Recorder(file)])
    os._exit(0)


def watch(root: Path, path: Path, results: Path) -> str:
    """Run one file in a child; return how that ended where it did not end by itself."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        try:
            run_file(root, path, results)
        finally:
            os._exit(1)
    end = time.monotonic() + LIMIT_OF_FILE_S
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "crashed" if os.WIFSIGNALED(status) else ""
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "too slow"


def outcomes(results: Path, ending: str) -> dict[str, str]:
    """Return each test's outcome; a failure's is its reason."""
    found: dict[str, str] = {}
    for line in results.read_text("utf-8").splitlines() if results.exists() else []:
        row = json.loads(line)
        outcome = row["outcome"]
        if outcome == "failed":
            outcome = next((name for name, pattern in REASONS if re.search(pattern, row["text"])), "differs otherwise")
        if found.get(row["test"], "started") in ("started", "passed"):
            found[row["test"]] = outcome
    return {test: (ending or "crashed") if outcome == "started" else outcome for test, outcome in found.items()}


def bring_up(soc: str) -> None:
    """Bring the emulated NPU up, with what most test files import."""
    import torch

    from jumar.device import DevicePlan, activate

    torch.set_num_threads(1)
    plan = DevicePlan(real="never", soc=soc)
    os.environ.update(plan.to_environment(), OMP_NUM_THREADS="1")
    activate(plan)
    import torch.testing._internal.common_utils
    import torch_npu.testing.common_utils  # noqa: F401  # so that forked children have it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", type=Path, help="folder of test files")
    parser.add_argument("--skip", nargs="*", default=[], metavar="FOLDER", help="leave folders of this name out")
    parser.add_argument("--every", type=int, default=1, help="take every Nth file only")
    parser.add_argument("--soc", default="Ascend910B1")
    parser.add_argument("--json", type=Path, help="write the counts there")
    options = parser.parse_args()
    every = sorted(options.tests.rglob("test_*.py"))
    wanted = [path for path in every if not set(path.relative_to(options.tests).parts) & set(options.skip)]
    files = wanted[:: options.every]
    bring_up(options.soc)
    counts: collections.Counter[str] = collections.Counter()
    scratch = Path(f"/tmp/vendor-tests-{os.getpid()}.jsonl")
    for number, path in enumerate(files, 1):
        scratch.unlink(missing_ok=True)
        ending = watch(options.tests.resolve(), path.resolve(), scratch)
        counts.update(outcomes(scratch, ending).values())
        sys.stderr.write(f"\r{number} of {len(files)} files, {counts['passed']} tests passed ")
    sys.stderr.write("\n")
    for name, number in counts.most_common():
        sys.stdout.write(f"{number:7d}  {name}\n")
    if options.json:
        found = {"soc": options.soc, "num_files": len(files), "every": options.every, "outcomes": dict(counts)}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
