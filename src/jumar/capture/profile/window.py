"""`Window`: the profiler, from the first warm-up step to the end of the last active one, and the file it writes.

Underneath is `torch.profiler.profile`, or `torch_npu.profiler.profile` where the program runs on an NPU: the vendor's,
or the emulated one. Only their public interface is used.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.profiler

from jumar.capture.notes.patches import Patches
from jumar.capture.profile.log import EventLog
from jumar.capture.profile.plan import ProfilePlan
from jumar.capture.profile.trace import write_trace

_MOST_MEMORY_EVENTS = 1_000_000
_SETTLES_S = 0.02


def runs_on_npu() -> bool:
    """Return whether this process has an NPU, the vendor's or the emulated one, and its profiler."""
    npu = getattr(torch, "npu", None)
    return "torch_npu" in sys.modules and npu is not None and bool(npu.is_available())


class OtherProfilers:
    """Knows whether the program uses PyTorch's profiler itself; PyTorch has one a process."""

    def __init__(self, on_other: Callable[[], None]) -> None:
        """`on_other` is called before a profiler of the program begins, and must leave none running."""
        self._on_other = on_other
        self._is_own = False
        self._num_running = 0
        self._has_run = False
        self._patches = Patches()

    def start(self) -> None:
        """Begin to watch."""
        self._patches.around(torch.profiler.profiler._KinetoProfile, "prepare_trace", self._around_begin)
        self._patches.around(torch.profiler.profiler._KinetoProfile, "stop_trace", self._around_end)
        self._patches.around(torch.autograd.profiler.profile, "__enter__", self._around_begin)
        self._patches.around(torch.autograd.profiler.profile, "__exit__", self._around_end)

    def stop(self) -> None:
        """End."""
        self._patches.restore()

    @contextmanager
    def own(self) -> Iterator[None]:
        """What profilers do inside the block is Jumar's doing."""
        self._is_own = True
        try:
            yield
        finally:
            self._is_own = False

    @property
    def is_running(self) -> bool:
        """Whether a profiler that is not Jumar's is running."""
        return self._num_running > 0 or bool(torch._C._autograd._profiler_enabled())

    def were_running(self) -> bool:
        """Return whether one has run since the last call."""
        found, self._has_run = self._has_run or self._num_running > 0, False
        return found

    @contextmanager
    def _around_begin(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        if not self._is_own:
            self._on_other()
            self._num_running += 1
            self._has_run = True
        yield

    @contextmanager
    def _around_end(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        yield
        if not self._is_own:
            self._num_running = max(self._num_running - 1, 0)


class Window:
    """Traces the steps of one rank. `start`, then `step` at each border, then `finish` once."""

    def __init__(self, plan: ProfilePlan, folder: Path, rank: int, log: EventLog, others: OtherProfilers) -> None:
        self._plan, self._folder, self._rank, self._log, self._others = plan, folder, rank, log, others
        self._is_npu = runs_on_npu()
        self._has_history = False
        self._is_wanted = True
        self._open_step: int | None = None
        self._collect: Callable[[], None] = lambda: None
        self._profiler: Any = None
        self.files: list[str] = []
        """What was written, by name in the folder."""
        self.not_covered: list[str] = []

    def start(self, step: int) -> None:
        """Begin with a step: it is the first warm-up step, or the first active one where none warms up."""
        api: Any = sys.modules["torch_npu"].profiler if self._is_npu else torch.profiler
        shift = step

        def schedule(number: int) -> Any:
            action = api.ProfilerAction
            if self._plan.phase(number + shift) == "warm-up":
                return action.WARMUP
            last = self._plan.end - 1 - number - shift
            return action.RECORD if last > 0 else action.RECORD_AND_SAVE if last == 0 else action.NONE

        self._profiler = api.profile(
            activities=list(api.supported_activities()),
            schedule=schedule,
            on_trace_ready=self._write_vendors(api) if self._is_npu else self._write,
            record_shapes=self._plan.shapes,
            with_stack=self._plan.stacks,
            profile_memory=self._plan.memory,
        )
        # NOTE: the profiler counts from 0 when it is made; its marks are to have the program's numbers.
        self._profiler.step_num, shift = step, 0
        with self._others.own():
            self._profiler.start()
        self._begin_history(step)

    def step(self, step: int) -> None:
        """Go on with the next step."""
        with self._others.own():
            self._profiler.step()
        self._begin_history(step)

    def finish(self, collect: Callable[[], None], *, open_step: int | None = None) -> None:
        """End and write the files; `collect` is called when the profiler has stopped, before they are written.

        `open_step` is the step under way, where the window does not end at a border. Raises OSError.
        """
        self._collect, self._open_step = collect, open_step
        _settle()
        with self._others.own():
            if open_step is None and self._profiler.step_num == self._plan.end - 1:
                self._profiler.step()  # the schedule is over; a profiler that is stopped before warns of it
            self._profiler.stop()
        self._end_history()

    def discard(self) -> None:
        """End and write nothing."""
        self._is_wanted = False
        _settle()
        with self._others.own():
            self._profiler.stop()
        self._stop_history()

    # -- files --------------------------------------------------------------------------------

    def _write(self, profiler: Any) -> None:
        if not self._is_wanted:
            return
        self._collect()
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".kineto-") as scratch:
            kineto = Path(scratch) / "trace.json"
            profiler.export_chrome_trace(str(kineto))
            self._write_trace(kineto)

    def _write_vendors(self, api: Any) -> Callable[[Any], None]:
        place = self._folder / f"npu-rank-{self._rank}"
        handler = api.tensorboard_trace_handler(str(place))

        def write(profiler: Any) -> None:
            if self._is_wanted:
                self._collect()
                handler(profiler)
                self.files += sorted(str(found.relative_to(self._folder)) for found in place.glob("*_ascend_pt"))
                self._write_trace(None)

        return write

    def _write_trace(self, kineto: Path | None) -> None:
        name = f"rank-{self._rank}.json.gz"
        write_trace(kineto, self._log, self._folder / name, open_step=self._open_step)
        self.files.append(name)

    # -- CUDA's memory ------------------------------------------------------------------------

    def _begin_history(self, step: int) -> None:
        """Have CUDA's pool note allocations from the first active step on."""
        if not self._plan.memory or step != self._plan.first or not torch.cuda.is_available():
            return
        try:
            torch.cuda.memory._record_memory_history(max_entries=_MOST_MEMORY_EVENTS)
        except (RuntimeError, AttributeError, TypeError) as error:
            self.not_covered.append(f"the history of CUDA's memory: PyTorch says {error}")
        else:
            self._has_history = True

    def _end_history(self) -> None:
        if self._has_history:
            name = f"memory-rank-{self._rank}.pickle"
            try:
                torch.cuda.memory._dump_snapshot(str(self._folder / name))  # type: ignore[no-untyped-call]
                self.files.append(name)
            finally:
                self._stop_history()

    def _stop_history(self) -> None:
        if self._has_history:
            self._has_history = False
            torch.cuda.memory._record_memory_history(enabled=None)


def _settle() -> None:
    """Give the threads of collectives a moment to end what they record, before the profiler stops.

    Gloo's threads tell the program that a collective is done before they note its end. On a busy machine the profiler
    was gone by then in 2 of some 60 runs, and PyTorch 2.13 wrote the end into memory that it had freed: the process
    ended with "malloc(): unsorted double linked list corrupted".
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        time.sleep(_SETTLES_S)
