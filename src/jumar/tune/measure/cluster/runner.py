"""A runner whose trials are carried out by the members of a Ray cluster.

Screenings of one slot do not depend on each other: `prepare` hands them to all members at once and returns what
became of them. A member that is lost (its machine went down, its process was killed) gives its trial back to the
others; a trial that took `MOST_LOST` members with it is judged as one that died. Members of another kind of machine
than the driver's are refused by name: what they would measure holds for them only.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from jumar.base.errors import InputError
from jumar.base.outside.ray import connected
from jumar.tune.measure.cluster.member import Member
from jumar.tune.measure.measuring import SecondsLeft, unless_cut_short, within
from jumar.tune.measure.resume import data_contents
from jumar.tune.measure.worker.messages import Limits, Outcome, Trial
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import Machine
from jumar.tune.model.process import sigterm_kept, sigterm_told
from jumar.tune.model.task import digest
from jumar.tune.providers import import_path
from jumar.tune.providers.base import Provider

MOST_LOST = 2
"""A trial that this many members were lost with is not handed on."""
START_TIMEOUT_S = 120.0
GRACE_S = 60.0
"""Beyond what a trial may take, once for waiting for the machine's turn and once for itself, before a member that does
not answer counts as lost."""
CLEAR_S = 5.0
"""For all members together to remove their data."""
LATE_S = 5.0
"""So long after the end of the time outcomes are waited for: the last trials were given what was left."""


@dataclass(slots=True, eq=False)
class _Task:
    """A trial on its way."""

    trial: Trial
    num_lost: int = 0
    is_wanted: bool = True
    """Whether somebody waits for its outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A trial at a member."""

    task: _Task
    future: Any
    given_s: float
    full_s: float
    deadline: float


@dataclass(slots=True, eq=False)
class _Handle:
    """A member as the driver sees it."""

    actor: Any
    name: str
    lost: bool = False
    held: set[str] = field(default_factory=set)
    """Contents of data files that it has."""
    call: _Call | None = None
    """What it measures, also when nobody waits for that any more."""


def endless() -> float:
    """Return what is left of a time without an end."""
    return math.inf


class Cluster:
    """Members of one kind, and what was refused or lost; `notes` says it in sentences. A context manager."""

    def __init__(
        self,
        address: str,
        providers: Sequence[Provider],
        machine: Machine,
        *,
        members_per_node: int = 1,
        num_cpus: int | None = None,
    ) -> None:
        """Join (or, for `local`, start with `num_cpus`) a cluster and bring a member up on every node.

        Raises TuneError, in one sentence, when it cannot be reached or has no machine like `machine`.
        """
        self.notes: list[str] = []
        self._providers = [import_path(provider) for provider in providers]
        self._machine = machine
        self._ray = _connected(address, num_cpus)
        try:
            with _reachable():
                self._members = self._bring_up(members_per_node)
        except BaseException:
            self._ray.shutdown()
            raise

    @property
    def names(self) -> list[str]:
        """Members that are there, as `host (process)`."""
        return [member.name for member in self._members if not member.lost]

    @property
    def num_lanes(self) -> int:
        """Members that measure at once."""
        return len(self.names)

    def run(self, trial: Trial, limits: Limits) -> Outcome:
        """Measure one trial on whichever member is free. Raises TuneError when every member is lost."""
        ((_, outcome),) = self.prepare([trial], limits)
        return outcome

    def prepare(
        self, trials: Sequence[Trial], limits: Limits, left_s: SecondsLeft = endless
    ) -> Iterator[tuple[Trial, Outcome]]:
        """Measure trials on all members at once, as long as there is time; gives each outcome when it is there.

        A member whose outcome nobody waits for any more gets its next trial when it has ended that one.
        Raises TuneError when every member is lost, or the cluster itself.
        """
        tasks = [_Task(trial) for trial in trials]
        waiting = deque(tasks)
        try:
            with _reachable():
                while (waiting or self._is_awaited()) and left_s() > -LATE_S:
                    self._hand_out(waiting, limits, left_s)
                    yield from self._collect(waiting)
        finally:
            for task in tasks:
                task.is_wanted = False

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(self._ray.exceptions.RayError, ConnectionError):
            self._clear_members()
        for member in self._members:
            with suppress(self._ray.exceptions.RayError, ConnectionError):
                self._ray.kill(member.actor)
        self._ray.shutdown()

    def _clear_members(self) -> None:
        """Let members remove their data: a member that Ray ends does nothing more."""
        clearing = [member.actor.clear.remote() for member in self._members if not member.lost]
        if clearing:
            self._ray.wait(clearing, num_returns=len(clearing), timeout=CLEAR_S)

    def _is_awaited(self) -> bool:
        """Tell whether a member measures what somebody waits for."""
        return any(member.call is not None and member.call.task.is_wanted for member in self._members)

    def _bring_up(self, members_per_node: int) -> list[_Handle]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        actor_class = self._ray.remote(Member)
        started = [
            actor_class.options(
                num_cpus=0,
                max_concurrency=2,  # `clear` is not to wait for a trial
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False),
            ).remote(self._providers, self._machine.device, self._machine.num_threads)
            for node in nodes
            for _ in range(members_per_node)
        ]
        members = [found for actor in started if (found := self._met(actor)) is not None]
        if not members:
            told = " ".join(self.notes) or "It has no nodes."
            raise TuneError(
                f"the cluster has no machine like this one ({self._machine}), so nothing can be measured there. {told}"
            )
        return members

    def _met(self, actor: Any) -> _Handle | None:
        """Return the member, or None with a note when it does not come up or is of another kind."""
        try:
            found = self._ray.get(actor.describe.remote(), timeout=START_TIMEOUT_S)
        except self._ray.exceptions.RayError as error:
            self.notes.append(f"A worker did not come up: {_first_line(error)}.")
            return None
        member = f"{found['host']} ({found['pid']})"
        other = Machine.from_json(found["machine"])
        if other.key == self._machine.key:
            return _Handle(actor=actor, name=member)
        here, there = asdict(self._machine), asdict(other)
        differ = ", ".join(
            f"{field} {there[field]}, not {here[field]}" for field in here if here[field] != there[field]
        )
        self.notes.append(f"{member} is refused: it has {differ}.")
        self._ray.kill(actor)
        return None

    def _hand_out(self, waiting: deque[_Task], limits: Limits, left_s: SecondsLeft) -> None:
        """Give every member that is free a trial; none is begun when there is no time left."""
        if left_s() <= 0:
            waiting.clear()
        for member in [one for one in self._members if not one.lost and one.call is None]:
            if waiting:
                self._hand_over(waiting, member, limits, left_s)
        if waiting and not self.names:
            raise TuneError(
                "every worker of the cluster is lost; start some, and the same command goes on from here. "
                + self.notes[-1]
            )

    def _hand_over(self, waiting: deque[_Task], member: _Handle, limits: Limits, left_s: SecondsLeft) -> None:
        """Begin the first trial on a member; when that is lost already, the trial stays where it is."""
        task = waiting[0]
        try:
            contents = self._send_data(task.trial, member)
            given = within(limits, left_s())
            future = member.actor.run.remote(task.trial.to_json(), asdict(given), contents)
        except self._ray.exceptions.RayError as error:
            self._lose(member, error)
            return
        waiting.popleft()
        member.call = _Call(
            task=task, future=future, given_s=given.time_s, full_s=limits.time_s,
            deadline=time.monotonic() + 2 * given.time_s + GRACE_S,
        )  # fmt: skip

    def _send_data(self, trial: Trial, member: _Handle) -> str:
        """Give the member the trial's data file, unless it has it; return what names it there."""
        if not trial.data:
            return ""
        contents = digest(data_contents(trial.data))
        if contents not in member.held:
            if not self._ray.get(member.actor.has.remote(contents)):
                self._ray.get(member.actor.put.remote(contents, Path(trial.data).read_bytes()))
            member.held.add(contents)
        return contents

    def _collect(self, waiting: deque[_Task]) -> Iterator[tuple[Trial, Outcome]]:
        """Give what has ended by now; wait a little when nothing has."""
        calls = {member.call.future: (member, member.call) for member in self._members if member.call is not None}
        if not calls:
            return
        ready, _ = self._ray.wait(list(calls), num_returns=1, timeout=1.0)
        late = [future for future, (_, call) in calls.items() if time.monotonic() > call.deadline]
        for future in [*ready, *(one for one in late if one not in ready)]:
            member, call = calls[future]
            member.call = None
            outcome = self._outcome(member, call)
            if not call.task.is_wanted:
                continue
            if outcome is None:
                waiting.appendleft(call.task)
            else:
                call.task.is_wanted = False
                yield call.task.trial, outcome

    def _outcome(self, member: _Handle, call: _Call) -> Outcome | None:
        """Return what became of a trial; None when the member was lost with it and another one may take it."""
        try:
            found = Outcome.from_json(self._ray.get(call.future, timeout=0.1))
        except self._ray.exceptions.RayError as error:
            self._lose(member, error)
            call.task.num_lost += not self._is_own(error)
            if call.task.num_lost < MOST_LOST:
                return None
            detail = f"{call.task.num_lost} workers of the cluster were lost with it"
            return Outcome(status="died", phase="candidate", detail=detail)
        return unless_cut_short(found, call.given_s, call.full_s)

    def _lose(self, member: _Handle, error: Exception) -> None:
        if member.lost:
            return
        member.lost = True
        why = f" It said: {_last_line(error)}." if self._is_own(error) else ""
        self.notes.append(f"{member.name} was lost; its trial was handed to another worker.{why}")
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(member.actor)

    def _is_own(self, error: Exception) -> bool:
        """Tell whether a member itself raised this: it cannot measure, and the candidate is not judged."""
        return isinstance(error, self._ray.exceptions.RayTaskError)


@contextmanager
def _reachable() -> Iterator[None]:
    """Turn what Ray's client raises when the head of the cluster is gone into a TuneError."""
    try:
        with sigterm_told():
            yield
    except ConnectionError as error:
        raise TuneError(
            f"the cluster cannot be reached any more: {_last_line(error)}. Start it again, and the same command goes "
            "on from here."
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _last_line(error: Exception) -> str:
    """Return the end of a message: where Ray passes on what was raised elsewhere, it begins with a traceback."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip().rstrip(".")


def _connected(address: str, num_cpus: int | None) -> Any:
    """Join or start the cluster. Raises TuneError where it cannot be reached."""
    try:
        with sigterm_kept():
            return connected(address, num_cpus)
    except InputError as error:
        raise TuneError(str(error)) from error
