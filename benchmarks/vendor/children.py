"""Run files of tests in forked children, several at a time: `run_all`.

A child that ends early, or is silent for too long, loses the test that it was at. The rest of its file runs in the
next child.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from child import NO_TESTS, Limits, run_file
from outcomes import merged

_PROGRAM = Path(__file__).parent / "child.py"
_SETS_ENVIRONMENT = re.compile(r"^os\.environ(?:\[|\.setdefault)", re.MULTILINE)


def sets_environment(path: Path) -> bool:
    """Return whether a file sets variables for all its tests, and so needs a process that has not used the device."""
    return _SETS_ENVIRONMENT.search(path.read_text("utf-8", "replace")) is not None


@dataclasses.dataclass
class _Child:
    path: Path
    results: Path
    process: int = 0
    size: int = -1
    since: float = 0.0
    since_cpu: float = 0.0
    num_lost: int = 0

    def rows(self) -> list[dict[str, Any]]:
        if not self.results.exists():
            return []
        lines = self.results.read_text("utf-8", "replace").splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def done(self) -> frozenset[str]:
        return frozenset(test for test, row in merged(self.rows()).items() if row["outcome"] != "started")

    def start(self, limits: Limits) -> None:
        done = self.done()
        self.size = -1
        self.process = os.fork()
        if self.process == 0:
            try:
                os.setpgid(0, 0)
                if sets_environment(self.path):
                    given = json.dumps([str(self.path), str(self.results), sorted(done), dataclasses.astuple(limits)])
                    os.execv(sys.executable, [sys.executable, str(_PROGRAM), given])
                run_file(self.path, self.results, done, limits)
            finally:
                os._exit(1)

    def is_silent(self, limits: Limits) -> bool:
        """Return whether the child wrote nothing for too long, by its processor time or by the clock.

        The child's own timer ends a test in Python; an operator that runs for minutes does not notice it.
        """
        size = self.results.stat().st_size if self.results.exists() else 0
        processor_s = _processor_s(self.process)
        if size != self.size:
            self.size, self.since, self.since_cpu = size, time.monotonic(), processor_s
        if processor_s - self.since_cpu > 2 * limits.processor_s:
            return True
        return time.monotonic() - self.since > limits.silent_s

    def stop(self) -> None:
        """End the child and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)

    def lose(self, outcome: str, text: str) -> bool:
        """Give the test that was running an outcome; return whether others of the file may be left."""
        rows = self.rows()
        started = [test for test, row in merged(rows).items() if row["outcome"] == "started"]
        test = started[0] if started else NO_TESTS
        if started or not rows:
            with self.results.open("a", encoding="utf-8") as file:
                file.write("\n" + json.dumps({"test": test, "outcome": outcome, "text": text}) + "\n")
        self.num_lost += 1
        return bool(started) and self.num_lost < 40


def run_all(
    paths: Iterable[Path], limits: Limits, at_once: int, scratch: Path
) -> Iterator[tuple[Path, dict[str, dict[str, Any]]]]:
    """Yield each file with the deciding row of each of its tests, as the files end."""
    waiting = iter(paths)
    running: list[_Child] = []
    number = 0
    while True:
        while len(running) < at_once and (path := next(waiting, None)) is not None:
            number += 1
            child = _Child(path, scratch / f"{os.getpid()}-{number}.jsonl")
            child.start(limits)
            running.append(child)
        if not running:
            return
        time.sleep(0.02)
        for child in list(running):
            if _goes_on(child, limits):
                continue
            running.remove(child)
            yield child.path, merged(child.rows())
            child.results.unlink(missing_ok=True)


def _goes_on(child: _Child, limits: Limits) -> bool:
    """Return whether a child runs, or was started again for the rest of its file."""
    ended, status, used = os.wait4(child.process, os.WNOHANG)
    if not ended:
        if not child.is_silent(limits):
            return True
        child.stop()
        os.waitpid(child.process, 0)
        again = child.lose("too slow", "no result within the limit")
    elif os.WIFSIGNALED(status) or os.WEXITSTATUS(status):
        how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
        child.stop()
        # NOTE: the child's timer raises wherever it is; out of some places of PyTorch's C++ that ends the process.
        was_slow = used.ru_utime + used.ru_stime - child.since_cpu > limits.processor_s
        again = child.lose("too slow" if was_slow else "crashed", how)
    else:
        child.stop()
        return False
    if again:
        child.start(limits)
    return again


def _processor_s(process: int) -> float:
    """Return the processor seconds that a process has used; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
