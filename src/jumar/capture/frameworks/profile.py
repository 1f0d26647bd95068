"""Profiling from within a program: `with jumar.profile(...)`, and callbacks for the training loops of Lightning and
Hugging Face."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from jumar.base.errors import UsageError
from jumar.base.text import parse_size
from jumar.capture.frameworks.libraries import HUGGING_FACE, LIGHTNING, LibraryCallback, barrier
from jumar.capture.process.inherit import end_with_the_process
from jumar.capture.profile.folder import launch_of, wait_for
from jumar.capture.profile.plan import ENVIRONMENT, ProfilePlan, schedule_of
from jumar.capture.profile.session import ProfileSession
from jumar.capture.session.ending import ending_of
from jumar.capture.session.session import current_rank

PATIENCE_S = 60.0
"""How long other ranks wait for rank 0 to make the folder."""


class profile:
    """Profiles what runs inside a `with` block, or from `start` to `stop`, into the folder `out`.

    `schedule` is (skip, warm-up, active): numbers of steps that pass, that the profiler warms up in, and that are in
    the trace; `steps` is (first, end), the traced steps counted from 0 within the block, with a warm-up step before.
    Without either it is (5, 1, 5). Steps are found as in `jumar profile`. A loop may call `step` at the end of each of
    its own; then those calls alone count. `shapes`, `stacks` and `memory` are what the profiler notes of each operator
    beside its times; `ranks` are those to profile, all by default. The window ends early after `time_limit_s` seconds,
    or when the process has grown by `growth_limit` (`"4GB"`).

    In a run of several ranks each of them enters the block; rank 0 makes the folder.

    Under `jumar profile` that command's profile goes on, and this one only counts steps where `step` is called.

    Raises UsageError when an argument breaks its rule or a profile is under way, OutputError when `out` cannot be used.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        schedule: tuple[int, int, int] | None = None,
        steps: tuple[int, int] | None = None,
        shapes: bool = True,
        stacks: bool = False,
        memory: bool = False,
        ranks: Sequence[int] | None = None,
        time_limit_s: float | None = None,
        growth_limit: str | None = None,
        force: bool = False,
    ) -> None:
        if schedule is not None and steps is not None:
            raise UsageError("schedule and steps say the same in two ways. Give one of them.")
        skip, warm_up, active = schedule_of(steps) if schedule is None else schedule
        self.plan = ProfilePlan(
            out=str(Path(out).absolute()),
            skip=skip,
            warm_up=warm_up,
            active=active,
            shapes=shapes,
            stacks=stacks,
            memory=memory,
            ranks=None if ranks is None else tuple(ranks),
            time_limit_s=time_limit_s,
            growth_limit_bytes=None if growth_limit is None else parse_size(growth_limit, "growth_limit"),
            force=force,
            command=tuple(sys.argv),
        )
        self._session: ProfileSession | None = None
        self._is_own = False
        self._environment: str | None = None

    def start(self, *, is_prepared: bool = False) -> None:
        """Begin; with `is_prepared` the folder was made by another rank."""
        self._is_own = ProfileSession.current is None
        if not self._is_own:
            self._session = ProfileSession.current
            return
        if not is_prepared and current_rank() > 0:
            wait_for(Path(self.plan.out), launch_of(os.environ), PATIENCE_S)
            is_prepared = True
        plan = replace(self.plan, prepared=is_prepared)
        self._session = ProfileSession(plan)
        end_with_the_process(self._session)
        self._environment = os.environ.get(ENVIRONMENT)
        os.environ.update(replace(plan, prepared=True).to_environment())  # for workers of data loaders that are spawned
        self._session.start()

    def step(self) -> None:
        """End a step. From the first call on, no other sign ends one."""
        if self._session is not None:
            self._session.step_by_hand()

    def leave_out(self) -> None:
        """Leave the step under way out of the averages: something that is no training runs in it."""
        if self._session is not None:
            self._session.leave_out()

    def stop(self, error: BaseException | None = None) -> None:
        """End; `error` is what ends the program, if anything does."""
        session, self._session = self._session, None
        if session is None or not self._is_own:
            return
        if self._environment is None:
            os.environ.pop(ENVIRONMENT, None)
        else:
            os.environ[ENVIRONMENT] = self._environment
        if ProfileSession.current is session:
            status, exit_code, text = ending_of(error)
            session.end(status, exit_code=exit_code, error=text)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop(error)


class TrainingProfiler(LibraryCallback):
    """What both callbacks share. Takes the arguments of `jumar.profile`.

    Raises UsageError when the library is not installed or an argument breaks its rule.
    """

    def __init__(self, out: str | os.PathLike[str], **options: Any) -> None:
        super().__init__(out, **options)
        self._profile = profile(out, **options)

    def _begin(self, rank: int, wait: Callable[[], Any]) -> None:
        """Start to profile; rank 0 makes the folder while the others `wait`."""
        try:
            if rank == 0:
                self._profile.start()
        finally:
            wait()
        if rank != 0:
            self._profile.start(is_prepared=True)


class LightningProfiler(TrainingProfiler):
    """A callback of Lightning: `Trainer(callbacks=[jumar.LightningProfiler("profile")])`.

    Works with `lightning` and `pytorch_lightning`, on each rank. A step in which a validation runs is in the trace, and
    in no average.
    """

    LIBRARIES = LIGHTNING

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start to profile."""
        self._begin(trainer.global_rank, trainer.strategy.barrier)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Leave the step out of the averages."""
        self._profile.leave_out()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End the profile."""
        self._profile.stop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the profile; what was finished stays."""
        self._profile.stop(exception)


class HuggingFaceProfiler(TrainingProfiler):
    """A callback of the Trainer: `Trainer(..., callbacks=[jumar.HuggingFaceProfiler("profile")])`.

    A step ends where the Trainer says so. One in which an evaluation runs is in the trace, and in no average.
    """

    LIBRARIES = HUGGING_FACE

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start to profile."""
        self._begin(int(getattr(args, "process_index", 0)), barrier)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End a step."""
        self._profile.step()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave the step that the evaluation is in out of the averages."""
        self._profile.leave_out()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the profile."""
        self._profile.stop()
