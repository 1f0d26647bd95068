"""What workers of data loaders leave for the process that started them: lines of JSON, a file each.

A worker writes as long as the file `loader-PARENT.on` is there, to `loader-PARENT-WORKER.jsonl`; PARENT and WORKER are
process ids. The parent takes the lines into its trace and removes the files. After a kill they stay readable.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from jumar.capture.notes.patches import Patches
from jumar.capture.profile.loader.stages import Sink, observe_fetchers, observe_transfer
from jumar.capture.profile.log import Event

_of_process = Patches()
"""Of a spawned worker; it lives as long as they do."""
_sinks: dict[int, Sink] = {}
"""By process, because a forked one inherits that of its parent."""
_role = {"may_work": True}


def switch(folder: Path) -> Path:
    """Return the file whose presence has the workers of this process write."""
    return folder / f"loader-{os.getpid()}.on"


def sink_of_worker(folder: Path, worker_id: int) -> Sink | None:
    """Return the sink of a worker, None where nobody is to write (any more); also has its queue timed."""
    parent = multiprocessing.parent_process()
    if parent is None or parent.pid is None:
        return None
    is_on = folder / f"loader-{parent.pid}.on"
    if not is_on.exists():
        return None
    if os.getpid() not in _sinks:  # a persistent worker makes a fetcher for each epoch
        sink = _PartWriter(folder / f"loader-{parent.pid}-{os.getpid()}.jsonl", is_on, worker_id).add
        observe_transfer(_of_process, sink)
        _sinks[os.getpid()] = sink
    return _sinks[os.getpid()]


def join_as_worker(folder: Path) -> None:
    """Observe the fetcher that this process makes if it is a loader's worker: for one that was not forked."""

    def sink_of(info: Any) -> Sink | None:
        return sink_of_worker(folder, info.id) if info is not None and _role["may_work"] else None

    observe_fetchers(_of_process, sink_of)


def leave() -> None:
    """Take `join_as_worker` back: this process is a rank, whose forked workers have their own sinks."""
    _role["may_work"] = False


def collected(folder: Path) -> Iterator[Event]:
    """Yield what the workers of this process have written, and remove their files. Half a line of a killed worker is
    left out."""
    for path in sorted(folder.glob(f"loader-{os.getpid()}-*.jsonl")):
        pid = int(path.stem.rpartition("-")[2])
        for line in path.read_text("utf-8").splitlines():
            with suppress(ValueError):
                event: dict[str, Any] = json.loads(line)
                yield Event(event["name"], event["start"], event["duration"], pid, event["thread"], event["more"])
        path.unlink()


class _PartWriter:
    """Appends one line an event. Events are a few a batch, so each is written at once and survives a kill."""

    def __init__(self, path: Path, is_on: Path, worker_id: int) -> None:
        self._path, self._is_on, self._worker_id = path, is_on, worker_id
        self._file = -1

    def add(self, name: str, start_ns: int, duration_ns: int, **more: Any) -> None:
        if not self._is_on.exists():
            return
        event = {
            "name": name, "start": start_ns, "duration": duration_ns, "thread": threading.get_native_id(),
            "more": {"worker": self._worker_id, **more},
        }  # fmt: skip
        with suppress(OSError):  # a full disk must not end the worker
            if self._file < 0:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.write(self._file, json.dumps(event).encode() + b"\n")
