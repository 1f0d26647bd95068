"""Runs a pure function over many small items in worker processes.

Workers are plain child processes of the same interpreter that read pickled requests from their standard
input. Unlike `concurrent.futures` this never imports the caller's `__main__` again (a script without a
main guard works), knows which item a worker had in hand when the system ended it (usually for memory),
so that only that item is tried alone and then given up, and stops at once: the children are in a session
of their own, end when their input closes, and are killed on Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Generic, TypeVar, cast

from jumar.base.process import children

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_CHILD = """
from jumar.base.process.pool import serve
serve()
"""


@dataclass(frozen=True, slots=True)
class Lost:
    """The result of an item whose worker the system ended twice; `reason` is part of a sentence."""

    reason: str


def run(
    function: Callable[[ItemT], ResultT], items: Sequence[ItemT], batches: Sequence[Sequence[int]], jobs: int
) -> Iterator[tuple[int, ResultT | Lost]]:
    """Yield (index, `function(items[index])`) as they are done, computed by `jobs` processes.

    `batches` holds the indices in portions. `function` (a module's function, or a `functools.partial` of
    one) and the items must be picklable. What `function` raises is raised here, and all workers end.
    """
    pool = _Pool(pickle.dumps(function), items, batches)
    try:
        pool.start(min(jobs, len(batches)))
        for _ in range(len(items)):
            yield cast("tuple[int, ResultT | Lost]", pool.result())
    finally:
        pool.stop()


class _Pool(Generic[ItemT]):
    def __init__(self, setup: bytes, items: Sequence[ItemT], batches: Sequence[Sequence[int]]) -> None:
        self._setup = setup
        self._items = items
        self._todo: queue.SimpleQueue[Sequence[int]] = queue.SimpleQueue()
        for batch in batches:
            self._todo.put(batch)
        self._done: queue.SimpleQueue[tuple[int, object] | BaseException] = queue.SimpleQueue()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._threads: list[threading.Thread] = []
        self._stopping = False
        self._lock = threading.Lock()

    def start(self, jobs: int) -> None:
        for _ in range(jobs):
            thread = threading.Thread(target=self._drive, name="jumar-worker", daemon=True)
            thread.start()
            self._threads.append(thread)

    def result(self) -> tuple[int, object]:
        found = self._done.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def stop(self) -> None:
        with self._lock:
            self._stopping = True
            children = list(self._children)
        for child in children:
            child.kill()
        for thread in self._threads:
            thread.join()

    def _drive(self) -> None:
        """Keep one worker busy until nothing is left to do; replace it when it dies."""
        try:
            while self._serve_with(_Worker(self)):
                pass
        except _Stopping:
            pass
        except BaseException as error:  # noqa: BLE001  # it is raised again in the caller's thread
            self._done.put(error)

    def _serve_with(self, worker: _Worker) -> bool:
        """Feed a worker until nothing is left; True when it died and another one is needed."""
        try:
            while True:
                try:
                    batch = self._todo.get_nowait()
                except queue.Empty:
                    return False
                for index in batch:
                    answer = worker.ask(self._items[index])
                    if answer is None:
                        self._died(worker, batch, index)
                        return True
                    self._done.put((index, answer[0]))
        finally:
            worker.close()

    def _died(self, worker: _Worker, batch: Sequence[int], index: int) -> None:
        """Give the item in hand up after its second death, else try it alone; the rest of its batch goes on."""
        rest = batch[list(batch).index(index) + 1 :]
        if rest:
            self._todo.put(rest)
        if len(batch) == 1:
            self._done.put((index, Lost(worker.last_words())))
        else:
            self._todo.put([index])

    def spawn(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopping:
                raise _Stopping
            child = subprocess.Popen(
                children.command(code=_CHILD), env=children.environment(), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
            self._children.add(child)
        return child

    @property
    def setup(self) -> bytes:
        return self._setup

    def forget(self, child: subprocess.Popen[bytes]) -> None:
        with self._lock:
            if self._stopping:
                raise _Stopping
            self._children.discard(child)


class _Stopping(Exception):
    """The pool stops; this thread's result is not needed."""


class _Worker:
    """One child process: asks and answers, one item at a time."""

    def __init__(self, pool: _Pool[ItemT]) -> None:
        self._pool = pool
        self._child = pool.spawn()
        self._send(pool.setup)

    def ask(self, item: object) -> tuple[object] | None:
        """Return the result in a tuple; None when the worker is gone. Raises what the function raised."""
        self._send(pickle.dumps(item))
        try:
            good, value = pickle.load(cast("IO[bytes]", self._child.stdout))
        except (EOFError, OSError, pickle.UnpicklingError):
            return None
        if not good:
            raise value
        return (value,)

    def _send(self, data: bytes) -> None:
        self._write(len(data).to_bytes(8, "little") + data)

    def _write(self, data: bytes) -> None:
        stdin = cast("IO[bytes]", self._child.stdin)
        try:
            stdin.write(data)
            stdin.flush()
        except OSError:
            pass  # the worker is gone; `ask` sees it

    def last_words(self) -> str:
        code = self._child.wait()
        return (
            f"the system ended the process with signal {-code}" if code < 0 else f"the process ended with code {code}"
        )

    def close(self) -> None:
        for stream in (self._child.stdin, self._child.stdout):
            with contextlib.suppress(OSError):  # what was still to be flushed has no reader any more
                cast("IO[bytes]", stream).close()
        self._child.wait()
        self._pool.forget(self._child)


def serve() -> None:
    """Be a worker: answer requests from standard input until it closes."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    setup = _received(requests)
    if setup is None:
        return
    function = pickle.loads(setup)
    while (data := _received(requests)) is not None:
        try:
            answer = pickle.dumps((True, function(pickle.loads(data))))
        except Exception as error:  # noqa: BLE001  # it is raised again in the parent
            answer = _pickled_error(error)
        try:
            answers.write(answer)
            answers.flush()
        except BrokenPipeError:
            os._exit(1)  # the parent is gone; flushing once more at exit would only complain


def _pickled_error(error: Exception) -> bytes:
    try:
        return pickle.dumps((False, error))
    except (pickle.PicklingError, TypeError, AttributeError):
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))


def _received(stream: IO[bytes]) -> bytes | None:
    head = stream.read(8)
    if len(head) < 8:
        return None
    size = int.from_bytes(head, "little")
    data = stream.read(size)
    return data if len(data) == size else None
