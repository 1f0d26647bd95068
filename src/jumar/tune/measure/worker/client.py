"""The tuner's end of the worker, and taking turns.

Of all the processes that tune on a machine, one measures at a time.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from jumar.base.files import try_lock
from jumar.base.process import children
from jumar.tune.measure.worker.messages import Limits, Outcome, Trial, answer_in
from jumar.tune.measure.worker.surroundings import ROOT, worker_environment
from jumar.tune.model.errors import TuneError
from jumar.tune.model.process import temporary_folder
from jumar.tune.providers import import_path
from jumar.tune.providers.base import Provider

MACHINE, QUEUE = "jumar-measuring.lock", "jumar-waiting.lock"
SHARED = 0o666
"""Permissions of the lock files."""
POLL_S = 0.02
WORTH_TELLING_S = 0.5
"""Waiting longer than this is worth telling."""

Waiting = Callable[[int | None], None]
"""Told, once a wait, the process that measures; None when it is not known."""

_lock = threading.Lock()
_held: dict[Path, tuple[int, list[int]]] = {}
"""By machine lock: how many threads of this process hold it, and its open files."""


class NoTurn(Exception):
    """Other processes measured all the while."""


class Turns:
    """The turns of one machine. `waited_s` is how long this process waited for them, over all turns."""

    def __init__(self, folder: Path | None = None, on_wait: Waiting | None = None) -> None:
        """`folder` has the lock files (None: the system's for temporary files, which all users share).

        Raises TuneError where there is no such folder.
        """
        self._folder = folder or temporary_folder()
        self._on_wait = on_wait
        self.waited_s = 0.0

    @contextmanager
    def taken(self, patience_s: float = math.inf) -> Iterator[None]:
        """Hold the machine's turn. Raises NoTurn when it has not come after `patience_s`.

        Where there are no file locks, nothing is waited for.
        """
        path = self._folder / MACHINE
        with _lock:
            if not self._joined(path):
                self._take(path, patience_s)
        try:
            yield
        finally:
            _leave(path)

    @staticmethod
    def _joined(path: Path) -> bool:
        count, handles = _held.get(path, (0, []))
        if count:
            _held[path] = (count + 1, handles)
        return count > 0

    def _take(self, path: Path, patience_s: float) -> None:
        handles = [_opened(self._folder / QUEUE), _opened(path)]
        if None not in handles:
            queue, machine = (handle for handle in handles if handle is not None)
            try:
                self._wait(queue, machine, patience_s)
            except BaseException:
                os.close(machine)
                raise
            finally:
                os.close(queue)
            _sign(machine)
            handles = [machine]
        _held[path] = (1, [handle for handle in handles if handle is not None])

    def _wait(self, queue: int, machine: int, patience_s: float) -> None:
        begun, told = time.monotonic(), False
        try:
            for handle in (queue, machine):
                while not try_lock(handle):
                    waited_s = time.monotonic() - begun
                    if waited_s > patience_s:
                        raise NoTurn
                    if not told and waited_s > WORTH_TELLING_S and self._on_wait is not None:
                        told = True
                        self._on_wait(_holder(machine))
                    time.sleep(POLL_S)
        finally:
            self.waited_s += time.monotonic() - begun


def _leave(path: Path) -> None:
    with _lock:
        count, handles = _held[path]
        if count > 1:
            _held[path] = (count - 1, handles)
            return
        del _held[path]
        for handle in handles:
            os.close(handle)


def _opened(path: Path) -> int | None:
    """Open a lock file; None where that cannot be.

    NOTE: not created when it exists: in a folder of all users, the kernel refuses O_CREAT on another user's file
    (fs.protected_regular). A lock needs no right to write. A link is not followed: anybody may have put it there, and
    the file is written to.
    """
    for flags in (os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_CREAT):
        try:
            handle = os.open(path, flags | os.O_NOFOLLOW, SHARED)
        except OSError:
            continue
        if flags & os.O_CREAT:
            with suppress(OSError):
                os.fchmod(handle, SHARED)  # whatever the umask says: others must be able to open it
        return handle
    return None


def _sign(handle: int) -> None:
    """Leave this process's number for those who wait, where the file may be written."""
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
    except OSError:
        return


def _holder(handle: int) -> int | None:
    text = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None


_PLANS = ("JUMAR_DEVICE_PLAN", "JUMAR_RECORD_PLAN", "JUMAR_EMULATOR_PLUGIN")
"""Wishes of an outer `jumar run` that a measurement must not inherit."""


class Worker:
    """Runs trials in a process of their own, one at a time. A context manager; started by the first trial."""

    def __init__(self, providers: Sequence[Provider], turns: Turns | None = None, device: str = "cpu") -> None:
        """`device` is where trials compute, by `Machine.target`.

        `turns` lets other processes that tune on this machine measure in between (None: it is not asked).
        """
        self._providers = providers
        self._turns, self._device = turns, device
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def run(self, trial: Trial, limits: Limits) -> Outcome:
        """Carry out a trial and return what became of it. Raises TuneError when no worker can be started.

        A worker that dies itself is one lost trial: the next one starts another.
        """
        if self._process is None:
            self._start()
        try:
            with self._turns.taken(limits.time_s) if self._turns is not None else nullcontext():
                answer = self._ask({"trial": trial.to_json(), "limits": asdict(limits)})
        except NoTurn:
            return Outcome(status="busy", phase="measure", detail="another tuning run used the machine all the while")
        if answer is None:
            self.close()
            return Outcome(status="died", detail="the worker process itself was ended")
        return Outcome.from_json(answer)

    def close(self) -> None:
        """End the worker, and with it a trial that is under way."""
        process, self._process = self._process, None
        end_process(process)

    def _start(self) -> None:
        environment = {name: value for name, value in worker_environment().items() if name not in _PLANS}
        # NumPy's BLAS would start threads at import, before the forks; no measured operator uses it.
        environment["OPENBLAS_NUM_THREADS"] = "1"
        self._process = subprocess.Popen(
            children.command(module="jumar.tune.measure.worker.nursery"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=environment,
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is the tuner's to handle
        )
        answer = self._ask(
            {
                "preload": sorted({name for provider in self._providers for name in provider.preload}),
                "providers": [import_path(provider) for provider in self._providers],
                "device": self._device,
            }
        )
        if answer is None or answer["error"]:
            self.close()
            reason = "it ended at once" if answer is None else answer["error"]
            raise TuneError(
                f"the worker process that measures cannot be started: {reason}. Mend this, then tune again."
            )

    def _ask(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Send one message and return its answer; None when the worker is gone."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
            while (line := self._process.stdout.readline()).endswith("\n"):
                if (answer := answer_in(line)) is not None:
                    return answer
        except (OSError, ValueError):
            return None
        return None


CLOSE_TIMEOUT_S = 3.0
"""A worker looks at its input ten times a second; only one that still imports its libraries takes longer."""


def end_process(process: subprocess.Popen[Any] | None) -> None:
    """Close the streams of a process and wait until it has ended; kill it when that takes too long."""
    if process is None:
        return
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    try:
        process.wait(CLOSE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
