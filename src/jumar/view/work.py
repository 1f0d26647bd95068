"""`Jobs`: what takes longer than a page may take is calculated in the background, once, and its result kept.

One job runs at a time, because each uses the memory of what it reads. Threads are daemons: Ctrl-C ends the server at
once, and nothing is lost, because nothing is written.
"""

from __future__ import annotations

import hashlib
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from jumar.base.errors import JumarError

MOST_KEPT = 12
"""Results that are kept, the last ones asked for."""

OnProgress = Callable[[int, int], None]
JobState = Literal["waiting", "running", "done", "failed"]


@dataclass(slots=True)
class Job:
    """One calculation. `result` is set when `state` is `done`, `failure` when it is `failed`."""

    key: str
    title: str
    again: str
    """Address that shows the result, and that a reader comes back to."""
    state: JobState = "waiting"
    done: int = 0
    total: int = 0
    result: Any = None
    failure: str = ""
    is_defect: bool = False
    """The failure is Jumar's, not that of the files."""
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def told(self) -> str:
        """Address that tells how far it is."""
        return f"/job/{self.key}"

    def progress(self, done: int, total: int | None) -> None:
        """Note how far it is."""
        self.done, self.total = done, total or 0


class Jobs:
    """Runs jobs one after the other. Safe for several threads."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def start(self, identity: object, title: str, again: str, run: Callable[[OnProgress], Any]) -> Job:
        """Return the job of this identity; it is begun where there is none. Equal identities are the same question."""
        key = hashlib.sha256(repr(identity).encode("utf-8", "backslashreplace")).hexdigest()[:16]
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = Job(key, title, again)
                threading.Thread(target=self._run, args=(job, run), daemon=True, name=f"jumar-view-{key}").start()
            self._jobs.move_to_end(key)
            ended = [one for one in self._jobs.values() if one.ended.is_set() and one is not job]
            for old in ended[: max(0, len(self._jobs) - MOST_KEPT)]:
                del self._jobs[old.key]
            return job

    def find(self, key: str) -> Job | None:
        """Return the job with a key; None where it was never begun, or was long ago."""
        return self._jobs.get(key)

    def _run(self, job: Job, run: Callable[[OnProgress], Any]) -> None:
        with self._turn:
            job.state = "running"
            try:
                job.result = run(job.progress)
            except (JumarError, OSError) as error:
                job.failure = str(error)
            except Exception as error:  # noqa: BLE001 - the page tells it, the server goes on
                job.failure, job.is_defect = f"{type(error).__name__}: {error}", True
                traceback.print_exc()
            job.state = "failed" if job.failure else "done"
            job.ended.set()
