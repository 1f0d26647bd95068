"""`LoaderWatch`: how long a program waits for each batch, how many lie ready, and what makes them."""

from __future__ import annotations

import functools
import os
import time
import weakref
from pathlib import Path
from typing import Any

import torch

from jumar.capture.notes.patches import Patches
from jumar.capture.profile.loader.parts import collected, sink_of_worker, switch
from jumar.capture.profile.loader.stages import Sink, observe_fetchers, observe_pinning
from jumar.capture.profile.log import EventLog


class LoaderWatch:
    """Observes the loaders of this process, and the workers that it starts from `start` to `stop`."""

    def __init__(self, log: EventLog, folder: Path) -> None:
        self._log, self._folder = log, folder
        self._patches = Patches()
        self._process = os.getpid()
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._num_unseen = 0

    def start(self) -> None:
        """Begin. Raises OSError where the folder cannot be written."""
        switch(self._folder).touch()
        iterator = torch.utils.data.dataloader._BaseDataLoaderIter
        init, get_next = iterator.__init__, iterator.__next__
        watch = self

        @functools.wraps(init)
        def made(self: Any, *args: Any, **kwargs: Any) -> None:
            watch._seen.add(self)
            init(self, *args, **kwargs)

        def timed(self: Any) -> Any:
            ready = num_ready(self)
            begin = time.time_ns()
            batch = get_next(self)
            watch._note(self, begin, ready)
            return batch

        self._patches.replace(iterator, "__init__", made)
        self._patches.replace(iterator, "__next__", timed)
        observe_fetchers(self._patches, self._sink_of)
        observe_pinning(self._patches, self._log.add)

    def stop(self) -> None:
        """End; the workers stop to write."""
        self._patches.restore()
        switch(self._folder).unlink(missing_ok=True)

    def collect(self) -> None:
        """Take what the workers have written so far into the log. Raises OSError."""
        for event in collected(self._folder):
            self._log.name_lane(event.pid, event.thread, f"data loader worker {event.arguments['worker']}")
            self._log.take(event)

    @property
    def not_covered(self) -> list[str]:
        """Sentences on what was not seen."""
        if not self._num_unseen:
            return []
        return [
            "the stages inside a data loader whose iterator was made before the profile began "
            f"({self._num_unseen} batches of it were taken)"
        ]

    def _sink_of(self, worker: Any) -> Sink | None:
        if worker is not None:
            return sink_of_worker(self._folder, worker.id)
        return self._log.add if os.getpid() == self._process else None

    def _note(self, iterator: Any, begin: int, ready: int | None) -> None:
        duration = time.time_ns() - begin
        workers = getattr(iterator, "_num_workers", 0)
        about = {} if ready is None else {"ready": ready}
        self._num_unseen += iterator not in self._seen
        self._log.add("loader next", begin, duration, workers=workers, **about)
        if ready is not None:
            self._log.count("loader queue", "batches", begin, ready)


def num_ready(iterator: Any) -> int | None:
    """Return how many batches the workers have made that the program has not taken; None without workers, and where the
    system does not tell how long a queue is (macOS)."""
    queue = getattr(iterator, "_data_queue", None)
    if queue is None:
        return None
    try:
        waiting = int(queue.qsize())
        made = getattr(iterator, "_worker_result_queue", queue)
        if made is not queue:  # between them is the thread that pins memory
            waiting += made.qsize()
    except (NotImplementedError, OSError):
        return None
    # A batch that came before its turn is kept beside the queue, with its number.
    return waiting + sum(len(info) == 2 for info in getattr(iterator, "_task_info", {}).values())
