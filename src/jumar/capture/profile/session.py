"""`ProfileSession`: the profile of this process, from its start to its end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from jumar.base.errors import InputError, UsageError
from jumar.capture.observe.observer import StopRun
from jumar.capture.profile import folder as folders
from jumar.capture.profile.collection import Collection
from jumar.capture.profile.facts import run_facts
from jumar.capture.profile.overhead import StepTime, overhead
from jumar.capture.profile.plan import NUM_PLAIN, ProfilePlan
from jumar.capture.profile.watch.steps import StepFinder
from jumar.capture.session.ending import Status, ending_of
from jumar.capture.session.outlook import program_may_train
from jumar.capture.session.session import current_rank, world_size
from jumar.device import ActiveDevice
from jumar.recording import RunEnd


class ProfileSession:
    """Profiles this process as a plan says. Nothing that fails in here ends the program.

    Raises OutputError when the folder cannot be used, UsageError when a profile is under way already. `on_step` is told
    the number of each traced step. After `NUM_PLAIN` steps beyond the window nothing of the session is left in the run.
    """

    current: ProfileSession | None = None
    """The session under way in this process."""

    def __init__(
        self,
        plan: ProfilePlan,
        *,
        device: ActiveDevice | None = None,
        on_step: Callable[[int], None] | None = None,
    ) -> None:
        if ProfileSession.current is not None:
            raise UsageError("a profile is under way in this process already. End it before you start another.")
        self.plan = plan = replace(plan, out=str(Path(plan.out).absolute()))  # the script may change its folder
        self._device, self._on_step = device, on_step
        self._started = time.monotonic()
        self._is_mine = True
        """Whether this process may say how the run ended."""
        self._rank: int | None = None
        """The rank that is profiled here; None before training begins, and where none is."""
        self._is_aside = False
        """Whether something that is no training ran in this step."""
        self._collection: Collection | None = None
        self._times: list[StepTime] = []
        self._began_ns = perf_counter_ns()
        self._by_hand = False
        self.step = 0
        """Number of completed steps, which is the number of the step under way."""
        self.not_covered: list[str] = []
        self.observer = StepFinder(self._begin, self._end_step, self._restart)
        """Finds the steps."""
        if not plan.prepared:
            folders.create(plan, run_facts(device))

    @property
    def is_collecting(self) -> bool:
        """Whether anything is still to be noted."""
        return self._collection is not None

    def start(self) -> None:
        """Begin."""
        ProfileSession.current = self
        os.register_at_fork(after_in_child=self._after_fork)
        self._collection = Collection(self.plan)
        try:
            self._collection.start()
        except OSError as error:
            self._give_up(f"everything: {self.plan.out} cannot be written: {error.strerror or error}")
        self.observer.start()
        self._began_ns = perf_counter_ns()

    def step_by_hand(self) -> None:
        """End a step where the program says so. From the first call on, only these calls do."""
        if not self._by_hand:
            self._by_hand = True
            self.observer.stop()
            if self.step == 1:
                return  # this very step was found before its loop came to the call
            if self.step:  # the optimizer stepped several times in it
                self._restart()
            else:
                self._begin()
        self._end_step()

    def leave_out(self) -> None:
        """Leave the step under way out of the averages: something that is no training runs in it."""
        self._is_aside = True

    def end(self, status: Status, *, exit_code: int = 0, error: str = "") -> RunEnd:
        """Stop, write what is finished, and how the run ended."""
        ProfileSession.current = None
        self.observer.stop()
        self._release(complete=False)
        end = RunEnd(
            rank=current_rank() if self._rank is None else self._rank,
            status=status,
            exit_code=exit_code,
            num_steps=self.step,
            wall_s=time.monotonic() - self._started,
            error=error,
            not_covered=tuple(self.not_covered),
        )
        if self._is_mine and self._rank is None:
            self._speak_up(status)
        facts = {"status": status, "exit_code": exit_code, "error": error, "steps_seen": self.step}
        self._tell({**facts, "not_covered": self.not_covered})
        return end

    def end_by(self, error: BaseException | None) -> RunEnd:
        """End with the `error` that is about to end the process; None for a normal end."""
        if self.observer.was_stopped:
            return self.end("stopped")
        status, exit_code, text = ending_of(error)
        return self.end(status, exit_code=exit_code, error=text)

    # -- steps --------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Take this process for a rank: it trains or infers."""
        rank = current_rank()
        collection = self._collection
        if collection is None:
            return
        try:
            self._is_mine = self.plan.wants(rank) and self._claims(rank)
            if not self._is_mine:
                self._drop()
                return
            self._rank = rank
            self._tell({"device": run_facts(self._device)["device"]})
            collection.begin(rank)
        except (OSError, InputError) as error:
            self._give_up(f"everything: {error}")
        else:
            self._attempt(lambda: self._go_on(collection))
        self._began_ns = perf_counter_ns()

    def _claims(self, rank: int) -> bool:
        """Take a rank; say so where another process has it, except to one that it has started, such as a worker whose
        script is imported once more. Raises OSError, InputError."""
        owner = folders.claim(Path(self.plan.out), rank)
        if owner not in {os.getpid(), os.getppid()}:
            sys.stderr.write(f"jumar: process {owner} is rank {rank}; process {os.getpid()} is not profiled.\n")
        return owner == os.getpid()

    def _end_step(self) -> None:
        """Take the end of the step under way and get ready for the next."""
        duration_ns = perf_counter_ns() - self._began_ns
        step, collection = self.step, self._collection
        self.step += 1
        if collection is not None:
            self._attempt(lambda: self._note(collection, step, duration_ns))
        if self.step >= self.plan.end + NUM_PLAIN:
            self._after_all()
        self._began_ns = perf_counter_ns()

    def _note(self, collection: Collection, step: int, duration_ns: int) -> None:
        """Note a step that has ended, and move the window on."""
        time = collection.end_step(step, duration_ns)
        self._times.append(replace(time, is_usual=time.is_usual and not self._is_aside))
        self._is_aside = False
        if self._on_step is not None and time.phase == "active":
            self._on_step(step)
        self._go_on(collection)

    def _go_on(self, collection: Collection) -> None:
        if collection.go_on(self.step):
            self._tell(collection.facts(self.step))

    def _attempt(self, work: Callable[[], None]) -> None:
        """Do a part of the session's work. What goes wrong in the profiler must not end the run."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - see above
            self._give_up(f"steps from {self.step} on, because the profiler failed: {type(error).__name__}: {error}")

    def _after_all(self) -> None:
        """Take Jumar out of the run, and end it where that was asked for."""
        self._release(complete=True)
        if self.plan.stop and (self._by_hand or self.observer.has_optimizer or not program_may_train()):
            self.observer.was_stopped = True
            raise StopRun
        if not self.plan.stop:
            self.observer.stop()

    def _restart(self) -> None:
        """Forget the steps so far: a program's calls of a model before it has an optimizer are no steps."""
        if not self.step:
            return
        self.step, self._times = 0, []
        collection = self._collection
        if collection is not None:
            self._attempt(collection.restart)
            self._attempt(lambda: self._go_on(collection))
        self._began_ns = perf_counter_ns()

    # -- the end ------------------------------------------------------------------------------

    def _release(self, *, complete: bool) -> None:
        """End the collection, and tell what it brought."""
        collection = self._collection
        if collection is None:
            return
        self._collection = None
        missing = [] if complete or collection.is_over else self._missing()
        try:
            collection.end(self.step)
        except Exception as error:  # noqa: BLE001 - what goes wrong in the profiler must not end the run
            self.not_covered.append(f"the trace, because it could not be written: {type(error).__name__}: {error}")
        self.not_covered += [*collection.not_covered, *missing]
        if self._rank is not None:
            cost = overhead(self._times)
            self._tell({**collection.facts(self.step), "overhead": cost, "is_complete": collection.is_written})

    def _missing(self) -> list[str]:
        """Return a sentence on steps that were asked for and did not come."""
        plan = self.plan
        if self.step >= plan.end:
            return []
        asked = f"steps {plan.first} to {plan.end - 1}"
        if not self.step:
            return [f"{asked}: the script completed no step. jumar docs guide-profile says what a step is"]
        if self.step <= plan.first:
            return [f"{asked}: the script completed {self.step} steps. Profile earlier ones: --skip 0 --active 1"]
        return [f"steps {self.step} to {plan.end - 1}: the script completed {self.step} steps"]

    def _drop(self) -> None:
        """Collect nothing in this process; its steps are still counted where the run is to stop."""
        collection, self._collection = self._collection, None
        if collection is not None:
            collection.drop()

    def _give_up(self, sentence: str) -> None:
        self.not_covered.append(sentence)
        self._drop()
        self._tell({"not_covered": self.not_covered})

    def _tell(self, facts: dict[str, Any]) -> None:
        """Add facts of this process's rank to `profile.json`."""
        if self._rank is None:
            return
        try:
            folders.update(Path(self.plan.out), self._rank, facts, world_size())
        except (OSError, InputError) as error:
            sys.stderr.write(f"jumar: {self.plan.out} cannot be written: {error}\n")

    def _speak_up(self, status: Status) -> None:
        """Become a rank at the end, where nobody else tells how the run ended, or this process failed early."""
        try:
            known = folders.read(Path(self.plan.out))["ranks"]
            rank = current_rank()
            if not known if not self.plan.prepared else status == "raised" and str(rank) not in known:
                self._rank = rank if folders.claim(Path(self.plan.out), rank) == os.getpid() else None
        except (OSError, InputError) as error:
            sys.stderr.write(f"jumar: {self.plan.out} cannot be written: {error}\n")

    def _after_fork(self) -> None:
        if ProfileSession.current is self:
            ProfileSession.current = None
            self._collection, self._is_mine = None, False
            self.observer.stop()
