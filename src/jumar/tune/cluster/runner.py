"""A runner whose trials are carried out by the members of a Ray cluster.

Screenings of one slot do not depend on each other: `prepare` hands them to all members at once and returns what
became of them. A member that is lost (its machine went down, its process was killed) gives its trial back to the
others; a trial that took `MOST_LOST` members with it is judged as one that died. Members of another kind of machine
than the driver's are refused by name: what they would measure holds for them only.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from jumar.tune.cluster.address import LOCAL
from jumar.tune.cluster.member import Member
from jumar.tune.errors import TuneError
from jumar.tune.machine import Machine
from jumar.tune.providers import import_path
from jumar.tune.providers.base import Provider
from jumar.tune.resume import data_contents
from jumar.tune.task import digest
from jumar.tune.worker import Limits, Outcome, Trial

MOST_LOST = 2
"""A trial that this many members were lost with is not handed on."""
START_TIMEOUT_S = 120.0
GRACE_S = 60.0
"""Beyond a trial's own limit, before a member that does not answer counts as lost."""


@dataclass(slots=True, eq=False)
class _Handle:
    """A member as the driver sees it."""

    actor: Any
    name: str
    lost: bool = False
    held: set[str] = field(default_factory=set)
    """Contents of data files that it has."""


@dataclass(slots=True)
class _Task:
    """A trial on its way."""

    trial: Trial
    num_lost: int = 0


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

    def prepare(self, trials: Sequence[Trial], limits: Limits) -> Iterator[tuple[Trial, Outcome]]:
        """Measure trials on all members at once; gives each outcome when it is there.

        Raises TuneError when every member is lost.
        """
        waiting = deque(_Task(trial) for trial in trials)
        under_way: dict[Any, tuple[_Task, _Handle, float]] = {}
        while waiting or under_way:
            busy = {id(member) for _, member, _ in under_way.values()}
            for member in [one for one in self._members if not one.lost and id(one) not in busy]:
                if waiting:
                    self._hand_over(waiting.popleft(), member, limits, waiting, under_way)
            if under_way:
                yield from self._collect(under_way, waiting)
            elif not self.names:
                raise TuneError(
                    "every worker of the cluster is lost; start some, and the same command goes on from here."
                )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for member in self._members:
            self._ray.kill(member.actor)
        self._ray.shutdown()

    def _bring_up(self, members_per_node: int) -> list[_Handle]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        actor_class = self._ray.remote(Member)
        started = [
            actor_class.options(
                num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
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
            self.notes.append(f"A worker did not come up: {str(error).strip().splitlines()[0]}.")
            return None
        member = f"{found['host']} ({found['pid']})"
        other = Machine.from_json(found["machine"])
        if other.key == self._machine.key:
            return _Handle(actor=actor, name=member)
        ours, theirs = asdict(self._machine), asdict(other)
        differ = ", ".join(
            f"{field} {theirs[field]}, not {ours[field]}" for field in ours if ours[field] != theirs[field]
        )
        self.notes.append(f"{member} is refused: it has {differ}.")
        self._ray.kill(actor)
        return None

    def _hand_over(
        self, task: _Task, member: _Handle, limits: Limits, waiting: deque[_Task], under_way: dict[Any, Any]
    ) -> None:
        """Begin a trial on a member; when that is lost already, the trial goes back to the front."""
        try:
            contents = self._send_data(task.trial, member)
            future = member.actor.run.remote(task.trial.to_json(), asdict(limits), contents)
        except self._ray.exceptions.RayError:
            self._lose(member)
            waiting.appendleft(task)
            return
        under_way[future] = (task, member, time.monotonic() + limits.time_s + GRACE_S)

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

    def _collect(self, under_way: dict[Any, Any], waiting: deque[_Task]) -> Iterator[tuple[Trial, Outcome]]:
        """Give what has ended by now; wait a little when nothing has."""
        ready, _ = self._ray.wait(list(under_way), num_returns=1, timeout=1.0)
        late = [future for future, (_, _, deadline) in under_way.items() if time.monotonic() > deadline]
        for future in [*ready, *(one for one in late if one not in ready)]:
            task, member, _ = under_way.pop(future)
            try:
                outcome = Outcome.from_json(self._ray.get(future, timeout=0.1))
            except (self._ray.exceptions.RayActorError, self._ray.exceptions.GetTimeoutError):
                self._lose(member)
                task.num_lost += 1
                if task.num_lost < MOST_LOST:
                    waiting.appendleft(task)
                    continue
                detail = f"{task.num_lost} workers of the cluster were lost with it"
                outcome = Outcome(status="died", phase="candidate", detail=detail)
            yield task.trial, outcome

    def _lose(self, member: _Handle) -> None:
        if not member.lost:
            member.lost = True
            self.notes.append(f"{member.name} was lost; its trial was handed to another worker.")
            self._ray.kill(member.actor)


def _connected(address: str, num_cpus: int | None) -> Any:
    import ray

    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False, "ignore_reinit_error": False}
    try:
        if address == LOCAL:
            ray.init(num_cpus=num_cpus, include_dashboard=False, **quiet)
        else:
            ray.init(address, **quiet)
    except (ConnectionError, ImportError, RuntimeError, ValueError, OSError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise TuneError(
            f'the cluster at {address} cannot be reached: {reason}. Check the address, that "ray start --head" runs '
            "there, and that jumar[cluster] is installed here and there."
        ) from error
    return ray
