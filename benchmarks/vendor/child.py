"""Run the tests of one file in this process, and write what happened as JSON lines: `run_file`.

A line has `test` (the node), `outcome` (`started`, `passed`, `failed`, `skipped`, `too slow`) and `text`, which is
the error's message and the end of its traceback.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

NO_TESTS = "(no test)"
"""Node of what happens to a file before its tests are known."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What one test may take: processor seconds, seconds without a result, and bytes of address space."""

    processor_s: int
    silent_s: int
    memory_bytes: int


class TooSlow(BaseException):
    """A test took longer than its limit. No Exception, so that the test does not catch it."""


class Recorder:
    """A pytest plugin that writes one JSON line an event and leaves out the tests that have a result."""

    def __init__(self, file: Any, done: frozenset[str], limits: Limits) -> None:
        self.file, self.done, self.limits = file, done, limits

    def write(self, test: str, outcome: str, text: str = "", at: str = "") -> None:
        self.file.write(json.dumps({"test": test, "outcome": outcome, "text": text[:600], "at": at}) + "\n")
        self.file.flush()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if _node(item.nodeid) not in self.done]

    def pytest_runtest_setup(self, item: Any) -> None:
        self.write(_node(item.nodeid), "started")
        signal.signal(signal.SIGPROF, _end)
        signal.setitimer(signal.ITIMER_PROF, self.limits.processor_s)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", None)
            text = str(crash or report.longrepr or "")
            outcome = "too slow" if "TooSlow" in text else report.outcome
            self.write(_node(report.nodeid), outcome, text, _end_of(report.longrepr))
        if report.when == "teardown":
            signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.write(NO_TESTS, "failed", str(report.longrepr)[-600:])
        elif report.outcome == "skipped":
            self.write(NO_TESTS, "skipped", str(report.longrepr)[-600:])


def _node(nodeid: str) -> str:
    """Return a test's class and name."""
    return nodeid.partition("::")[2] or nodeid


def _end_of(failure: Any) -> str:
    """Return where a failure's innermost frames are, the innermost one's first line, and the test's line."""
    entries = getattr(getattr(failure, "reprtraceback", None), "reprentries", [])
    places = [str(entry.reprfileloc) for entry in entries if getattr(entry, "reprfileloc", None)]
    source = [line.strip() for entry in entries[:1] for line in entry.lines if line.startswith(">")]
    names = [line.strip() for entry in entries[-1:] for line in entry.lines[:1]]
    return " < ".join([*reversed(places[-4:]), *names, *source])[:700]


def _end(*_: Any) -> None:
    raise TooSlow


def run_file(path: Path, results: Path, done: frozenset[str], limits: Limits) -> None:
    """Run the tests of a file but those in `done`; append to `results`. The process ends with it."""
    import pytest

    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(path.parent)
    root = next((parent for parent in path.parents if parent.name == "test"), path.parent)
    sys.path[:0] = [str(root), str(path.parent)]
    sys.argv = [str(path)]
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:jumar", "-p", "no:xdist", "-p", "no:timeout"]
    options += ["-p", "no:unraisableexception", "-p", "no:threadexception"]
    options += ["-c", os.devnull, f"--rootdir={path.parent}", "-W", "default", "-o", f"python_files={path.name}"]
    with results.open("a", encoding="utf-8") as file:
        pytest.main([*options, str(path)], plugins=[Recorder(file, done, limits)])
    os._exit(0)


if __name__ == "__main__":  # in a fresh process, for a file that sets variables first
    _path, _results, _done, (_processor_s, _silent_s, _memory_bytes) = json.loads(sys.argv[1])
    _limits = Limits(processor_s=_processor_s, silent_s=_silent_s, memory_bytes=_memory_bytes)
    run_file(Path(_path), Path(_results), frozenset(_done), _limits)
