"""`Collection`: all that is collected in a process that is profiled, until the window's end and a few steps more."""

from __future__ import annotations

import time
from pathlib import Path
from time import monotonic
from typing import Any

from jumar.capture.profile.loader.parts import leave
from jumar.capture.profile.loader.watch import LoaderWatch
from jumar.capture.profile.log import EventLog
from jumar.capture.profile.overhead import StepTime
from jumar.capture.profile.plan import ProfilePlan
from jumar.capture.profile.watch.compiles import CompileWatch
from jumar.capture.profile.watch.host import HostSampler, rss_bytes
from jumar.capture.profile.watch.pauses import PauseWatch
from jumar.capture.profile.window import OtherProfilers, Window


class Collection:
    """What is noted of a process. `start`; `begin` when it turns out to be a rank; `go_on` at each border; `end`."""

    def __init__(self, plan: ProfilePlan) -> None:
        self._plan = plan
        self._folder = Path(plan.out)
        self._log = EventLog()
        self._loaders = LoaderWatch(self._log, self._folder)
        self._pauses = PauseWatch(self._log)
        self._compiles = CompileWatch(self._log)
        self._others = OtherProfilers(self._make_way)
        self._host: HostSampler | None = None
        self._window: Window | None = None
        self._files: list[str] = []
        self._opened_at = 0.0
        self._rss = 0
        self._now = 0
        """Number of the step under way."""
        self.rank: int | None = None
        """The rank of this process, once it is one."""
        self.is_over = False
        """Whether the window was closed, or never will be open."""
        self.num_traced = 0
        """Complete steps in the trace."""
        self.is_written = False
        """Whether the trace has all steps that were asked for."""
        self.not_covered: list[str] = []

    def start(self) -> None:
        """Begin to note what happens before the first step, too. Raises OSError."""
        self._loaders.start()
        self._pauses.start()
        self._others.start()

    def begin(self, rank: int) -> None:
        """Begin as a rank: the host is sampled. Raises OSError."""
        self.rank = rank
        leave()
        self._host = HostSampler(self._folder / f"host-rank-{rank}.jsonl", self._log)
        self._host.start()

    def end_step(self, step: int, duration_ns: int) -> StepTime:
        """Note a step and return how long it took."""
        phase = self._plan.phase(step)
        if phase == "active" and self._window is None:
            phase = "skip"  # the window closed before its time, or never opened
        self._log.add(f"step {step}", time.time_ns() - duration_ns, duration_ns, phase=phase)
        was_disturbed = self._compiles.poll() | self._others.were_running()
        return StepTime(step, phase, duration_ns / 1e6, is_usual=not was_disturbed)

    def go_on(self, step: int) -> bool:
        """Open, move or close the window for the step that begins; return whether it was closed.

        Raises what the profiler raises.
        """
        self._now = step
        if self.is_over:
            return False
        if self._window is None:
            if step >= self._plan.skip:
                self._open(step)
            return self.is_over
        if step >= self._plan.end or (step > self._plan.first and self._is_at_limit(step)):
            self.num_traced = step - self._plan.first
            self._close()
            self.is_written = step >= self._plan.end
            return True
        self._window.step(step)
        return False

    def restart(self) -> None:
        """The steps so far were none: discard what the window holds."""
        self._log.forget_steps()
        window, self._window = self._window, None
        if window is not None:
            window.discard()
        self.is_over = False

    def end(self, step: int) -> None:
        """Close the window if it is open, in the middle of `step`, and take everything out of the run."""
        try:
            self._compiles.poll()
            if self._window is not None:
                self.num_traced = max(step - self._plan.first, 0)
                self._close(open_step=step)
        finally:
            self.drop()
            self._tell_of_losses()

    def drop(self) -> None:
        """Take everything out of the run."""
        window, self._window = self._window, None
        if window is not None:
            window.discard()
        self._others.stop()
        self._pauses.stop()
        self._loaders.stop()
        if self._host is not None:
            self._host.stop()

    def facts(self, step: int) -> dict[str, Any]:
        """Return what is known for `profile.json`."""
        return {
            "steps_seen": step,
            "num_traced": self.num_traced,
            "files": self._files + ([f"host-rank-{self.rank}.jsonl"] if self._host is not None else []),
            "collections": {str(number): {"num": int(tally[0]), "ms": round(tally[1], 3)}
                            for number, tally in self._pauses.collections.items()},
            "compiles": {"num": self._compiles.num_compiles, "reasons": self._compiles.reasons},
        }  # fmt: skip

    def _open(self, step: int) -> None:
        if self._others.is_running:
            self.is_over = True
            self.not_covered.append(
                f"the trace: the script's own profiler was running when step {step} began, and PyTorch has one a "
                "process. Take it out of the script, or choose other --steps"
            )
            return
        assert self.rank is not None
        self._window = Window(self._plan, self._folder, self.rank, self._log, self._others)
        self._window.start(step)
        self._opened_at, self._rss = monotonic(), rss_bytes() or 0

    def _close(self, open_step: int | None = None) -> None:
        window, self._window = self._window, None
        assert window is not None
        self.is_over = True
        try:
            window.finish(self._loaders.collect, open_step=open_step)
        finally:
            self._files += window.files
            self.not_covered += window.not_covered

    def _is_at_limit(self, step: int) -> bool:
        """Return whether a limit ends the window before this step; say so."""
        plan = self._plan
        lasted, grown = monotonic() - self._opened_at, (rss_bytes() or 0) - self._rss
        if plan.time_limit_s is not None and lasted >= plan.time_limit_s:
            reason = f"the time limit of {plan.time_limit_s:g} s was reached"
        elif plan.growth_limit_bytes is not None and grown >= plan.growth_limit_bytes:
            reason = f"the process grew by {grown} bytes, and {plan.growth_limit_bytes} is the limit"
        else:
            return False
        self.not_covered.append(f"steps {step} to {plan.end - 1}: {reason}")
        return True

    def _make_way(self) -> None:
        """Close the window for a profiler of the program's own, which could not start otherwise."""
        if self._window is None:
            return
        self.not_covered.append(
            f"steps {self._now} to {self._plan.end - 1}: the script started a profiler of its own in step {self._now}, "
            "and PyTorch has one a process. Take it out of the script, or choose other --steps"
        )
        self.num_traced = max(self._now - self._plan.first, 0)
        self._close(open_step=self._now)

    def _tell_of_losses(self) -> None:
        self.not_covered += self._loaders.not_covered
        if self._log.num_dropped:
            self.not_covered.append(f"the {self._log.num_dropped} earliest of Jumar's own events: there were too many")
        if self._host is not None and self._host.failure:
            self.not_covered.append(self._host.failure)
