"""Writes finished steps on a thread of its own, so that the run does not wait for rows and files.

At most one step is being written while the next is recorded; a faster run waits. A full disk ends
the recording, never the run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from jumar.capture.notes.calls import Call
from jumar.recording import RecordingWriter, RunEnd, StepInfo

if TYPE_CHECKING:
    from jumar.capture.session.table import TableMaker


class Sink:
    """Writes the steps of one rank, with `only_wanted` whole tensors of rows that were asked for alone.

    `failure` is a sentence once the recording had to stop, else empty.
    """

    def __init__(self, writer: RecordingWriter, *, only_wanted: bool = False) -> None:
        self.writer = writer
        """What writes the files."""
        self._only_wanted = only_wanted
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jumar-recording")
        self._pending: Future[None] | None = None
        self._pending_step = 0
        self._tables: TableMaker | None = None
        self.failure = ""
        self.num_rows = 0

    def write(self, step: int, calls: Sequence[Call], info: StepInfo | None = None) -> None:
        """Hand over the calls of a finished step; returns when the step before it is on the disk."""
        self.wait()
        if not self.failure:
            self._pending_step = step
            self._pending = self._executor.submit(self._write, step, calls, info)

    def wait(self) -> None:
        """Wait until what was handed over is written, or has failed."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        error = pending.exception()
        if error is not None:
            advice = " Free some space, or record fewer steps or statistics instead of tensors."
            reason = (
                f"{os.strerror(error.errno)}.{advice}" if isinstance(error, OSError) and error.errno else repr(error)
            )
            self.failure = f"steps from {self._pending_step} on are not recorded: {reason}"

    def discard(self) -> None:
        """Remove what was written so far; the recording ends when that fails."""
        self.wait()
        try:
            self.writer.discard_steps()
        except OSError as error:
            self.failure = self.failure or f"calls before the training could not be removed: {error}"
        self.num_rows = 0

    def close(self, end: RunEnd) -> None:
        """Write the last step and the end. Raises OSError when not even the end can be written."""
        self.wait()
        self._executor.shutdown()
        self.writer.close(end)

    def _write(self, step: int, calls: Sequence[Call], info: StepInfo | None) -> None:
        from jumar.capture.session.table import TableMaker, to_arrays

        if self._tables is None:
            self._tables = TableMaker(self.writer.rank)
        arrays, dtypes = to_arrays(calls, only_wanted=self._only_wanted)
        self.writer.write_table(step, self._tables.make(calls, step), arrays, dtypes, info)
        self.num_rows += len(calls)
