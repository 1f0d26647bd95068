"""Progress of long steps on stderr: bars for people; for logs a line at a task's start, end and every ten seconds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from jumar.base.text.language import translate


@contextmanager
def progress(*, console: Console | None = None) -> Iterator[Progress]:
    """Yield a rich `Progress` on stderr (or on `console`).

    In a terminal it shows spinner, description, bar, count and time; elsewhere it prints one plain
    line when a task begins, one every ten seconds while it runs, and one when it ends. A task ends when its total is
    reached, when it is removed or stopped, or when the context is left: before its total without an error, it is done
    after what it counted.
    """
    if console is None:
        console = Console(stderr=True, highlight=False)
        # NOTE: with FORCE_COLOR rich takes a file for a terminal, and would fill it with the pictures of a spinner.
        is_live = console.is_terminal and console.file.isatty()
    else:
        is_live = console.is_terminal
    if not is_live:
        with _Lines(console) as lines:
            yield lines
        return
    columns = (
        SpinnerColumn(finished_text="✓"),
        _Description("{task.description}", markup=False),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bars:
        yield bars


class _Description(TextColumn):
    """What a task does, in the user's language."""

    def render(self, task: Task) -> Text:
        return Text(translate(task.description))


EVERY_S = 10.0
"""In a pipe, a task that runs says so this often."""


class _Lines(Progress):
    """A Progress without a live display: it counts as its base does and prints lines, also while a task runs."""

    def __init__(self, console: Console) -> None:
        super().__init__(console=console, disable=True, auto_refresh=False)
        self._ended: set[TaskID] = set()
        self._ending = threading.Lock()
        self._left = threading.Event()

    def __enter__(self) -> _Lines:
        super().__enter__()
        threading.Thread(target=self._tell_running, name="jumar-progress", daemon=True).start()
        return self

    def _tell_running(self) -> None:
        while not self._left.wait(EVERY_S):
            self.tell_running()

    def tell_running(self) -> None:
        """Print a line for each task that has begun and not ended."""
        for task in self.tasks:
            if task.id not in self._ended and not task.finished:
                count = f", {_count(task)}" if task.total else ""
                self._say(f"{translate(task.description)}: running{count}, {task.elapsed or 0.0:.0f} s")

    def add_task(self, description: str, *args: Any, **kwargs: Any) -> TaskID:
        task_id = super().add_task(description, *args, **kwargs)
        task = self._tasks[task_id]
        told = translate(description)
        self._say(f"{told}: {_count(task)}" if task.total else f"{told} …")
        self._end_if_finished(task_id)
        return task_id

    def update(self, task_id: TaskID, **fields: Any) -> None:
        super().update(task_id, **fields)
        self._end_if_finished(task_id)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._end_if_finished(task_id)

    def stop_task(self, task_id: TaskID) -> None:
        super().stop_task(task_id)
        self._end(task_id, "done" if _is_complete(self._tasks[task_id]) else "stopped")

    def remove_task(self, task_id: TaskID) -> None:
        self._end(task_id, "done" if _is_complete(self._tasks[task_id]) else "stopped")
        super().remove_task(task_id)

    def __exit__(self, error_type: Any, error: Any, traceback: Any) -> None:
        self._left.set()
        for task in self.tasks:
            early = "done" if _is_complete(task) else "done after"  # the caller had its answer
            self._end(task.id, early if error_type is None else "stopped")
        super().__exit__(error_type, error, traceback)

    def _end_if_finished(self, task_id: TaskID) -> None:
        if self._tasks[task_id].finished:
            self._end(task_id, "done")

    def _end(self, task_id: TaskID, how: str) -> None:
        with self._ending:
            if task_id in self._ended:
                return
            self._ended.add(task_id)
        task = self._tasks[task_id]
        joint = " " if how == "done after" else ", "
        count = f"{joint}{_count(task)}" if task.total else ""
        self._say(f"{translate(task.description)}: {how}{count}, {task.elapsed or 0.0:.1f} s")

    def _say(self, text: str) -> None:
        self.console.print(translate(text), markup=False, emoji=False, highlight=False, soft_wrap=True)


def _is_complete(task: Task) -> bool:
    return task.total is None or task.completed >= task.total


def _count(task: Task) -> str:
    return f"{task.completed:g} of {task.total:g}"
