"""`Progress`: how the pipeline reports its stage to the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Progress(Protocol):
    """Shows progress; `rich.progress.Progress` has these methods, and so does the plain-text one."""

    def add_task(self, description: str, *, total: float | None = None) -> Any:
        """Start showing a task and return its number; `total` is None while its length is unknown."""

    def update(self, task_id: Any, *, completed: float | None = None, total: float | None = None) -> None:
        """Show how far the task is."""


class Silent:
    """Shows nothing."""

    def add_task(self, description: str, *, total: float | None = None) -> int:
        """Ignore the task."""
        return 0

    def update(self, task_id: int, *, completed: float | None = None, total: float | None = None) -> None:
        """Ignore the progress."""


@contextmanager
def stage(progress: Progress, description: str) -> Iterator[None]:
    """Show `description` as running inside the block and as done after it."""
    task = progress.add_task(description, total=None)
    yield
    progress.update(task, completed=1, total=1)
