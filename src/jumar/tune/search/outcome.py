"""What a tuning run found, task by task and kind by kind, with the vendor's counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jumar.base.findings import Finding, Json
from jumar.base.lazy import Shown
from jumar.tune.bank.entry import Tried
from jumar.tune.measure.measuring import Measurement
from jumar.tune.measure.options import JOB_OPERATORS
from jumar.tune.model.gate import Gain, improvement_percent
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Policy, PolicyKind
from jumar.tune.search.subgraph.outcome import NOT_JUDGED, GraphOutcome
from jumar.tune.search.tasks.extract import NotTuned, TaskUse

if TYPE_CHECKING:
    from jumar.tune.measure.conditions.preconditions import Conditions
    from jumar.tune.search.precision.outcome import PrecisionOutcome

Action = Literal["add", "update", "reserved", "unsatisfied"]
"""The vendor's words. `add`: was not in the bank, written; `update`: was in it, replaced by a better one;
`reserved`: was in it, kept; `unsatisfied`: was not in it and still is not."""

RunStatus = Literal["successful", "failed", "incomplete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOutcome:
    """One kind of policy of one task."""

    kind: PolicyKind
    action: Action
    policy: Policy | None = None
    """What the bank holds now."""
    gain: Gain | None = None
    """The confirming measurement of `policy`, now or when it was written."""
    tried: Sequence[Tried] = ()
    """Candidates of this run; empty when the bank answered."""
    from_bank: bool = False
    """The bank answered, nothing was measured."""
    started_from: str = ""
    """The nearest task of the bank, whose policy was tried first; empty when there was none."""

    def to_json(self) -> dict[str, Json]:
        """Return the slot as JSON values."""
        return {
            "kind": self.kind,
            "action": self.action,
            "policy": None if self.policy is None else self.policy.to_json(),
            "gain": None if self.gain is None else self.gain.to_json(),
            "improvement_percent": None if self.gain is None else improvement_percent_of(self.gain),
            "tried": [tried.to_json() for tried in self.tried],
            "from_bank": self.from_bank,
            "started_from": self.started_from,
        }


@dataclass(slots=True, kw_only=True)
class TaskOutcome:
    """One task; `failure` says why the operator itself could not be run, empty when it could."""

    use: TaskUse
    slots: list[SlotOutcome] = field(default_factory=list)
    failure: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return the task's outcome as JSON values."""
        return self.use.to_json() | {"slots": [slot.to_json() for slot in self.slots], "failure": self.failure}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedOutcome:
    """One graph with its operators' policies."""

    name: str
    num_policies: int
    """Operators of the graph that have policies."""
    gain: Gain | None = None
    """Against eager; None when it was not measured."""
    is_faster: bool = False
    """Whether the gain clears the gate."""
    is_written: bool = False
    """Whether it became the graph's plan in the bank."""
    told: str = ""
    """What came of it, in a sentence; empty for a graph without an operator that can be tuned."""

    def times_us(self) -> tuple[float, float] | None:
        """Return microseconds a call before and after: the same twice when the model is left as it was."""
        if self.gain is None:
            return None
        return self.gain.before_us, self.gain.after_us if self.is_faster else self.gain.before_us

    def to_json(self) -> dict[str, Json]:
        """Return everything as JSON values."""
        return {
            "name": self.name,
            "num_policies": self.num_policies,
            "gain": None if self.gain is None else self.gain.to_json(),
            "is_faster": self.is_faster,
            "is_written": self.is_written,
            "told": self.told,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The vendor's `repo_summary`, counting policies: hit = reserved + update, total = hit + add + unsatisfied."""

    add: int = 0
    update: int = 0
    reserved: int = 0
    unsatisfied: int = 0

    @property
    def hit(self) -> int:
        """Policies that were in the bank when the run met them."""
        return self.reserved + self.update

    @property
    def total(self) -> int:
        """All policies of the run."""
        return self.hit + self.add + self.unsatisfied


@dataclass(slots=True, kw_only=True)
class TuneResult(Shown):
    """A whole run. `status` stays `incomplete` until the last task is done."""

    recording: str
    recorded_device: str
    """The device the recording was made on: policies hold for `machine`, not for it."""
    machine: Machine
    min_gain: float
    job_type: int = JOB_OPERATORS
    is_offline: bool = False
    """Of a model, not of a program that ran: decides the form of the vendor's result file."""
    graphs: list[GraphOutcome] = field(default_factory=list)
    """Of job 1."""
    num_graphs: int = 0
    """Graphs of the model, tuned or not."""
    composed: list[ComposedOutcome] = field(default_factory=list)
    """Of job 2: a model's graphs with the policies of their operators."""
    precisions: list[PrecisionOutcome] = field(default_factory=list)
    """Of graphs whose precision was searched, in their order."""
    tasks: list[TaskOutcome] = field(default_factory=list)
    num_tasks: int = 0
    """Distinct tasks of the recording, tuned or not."""
    num_calls: int = 0
    not_tuned: Sequence[NotTuned] = ()
    providers: Sequence[str] = ()
    missing_providers: dict[str, str] = field(default_factory=dict)
    """Provider to why it is missing."""
    findings: list[Finding] = field(default_factory=list)
    status: RunStatus = "incomplete"
    stopped_by: str = ""
    """`Ctrl-C`, `--time-budget`, `--trials`; empty when everything was tuned."""
    wall_s: float = 0.0
    num_trials: int = 0
    num_measurements: int = 0
    load_average: float | None = None
    """Of the last minute when the run began: a busy machine widens every interval."""
    bank: str = ""
    """File or URL."""
    history: list[Measurement] = field(default_factory=list)
    """What was measured, in the order of time."""
    notes: list[str] = field(default_factory=list)
    """Sentences on the job file: what was taken over, what was left alone."""
    conditions: Conditions | None = None
    """The machine as the run found it and what it needs; None when nobody looked."""
    result_file: Path | None = None
    result_file_failure: str = ""
    """Why the file could not be written the last time, so that it tells of an earlier moment; empty when it could."""

    @property
    def is_of_another_device(self) -> bool:
        """Whether what is tuned was recorded on another device than `machine`; a model was recorded on none."""
        device = self.recorded_device.partition(" ")[0]  # `npu (emulated)`; of `set_aoe` the chip
        return not self.is_offline and device not in {self.machine.device, self.machine.model}

    def counters(self) -> Counters:
        """Return the counts of the tasks so far."""
        actions = [slot.action for task in self.tasks for slot in task.slots]
        actions += [graph.action for graph in self.graphs if not graph.failure]
        return Counters(
            add=actions.count("add"),
            update=actions.count("update"),
            reserved=actions.count("reserved"),
            unsatisfied=actions.count("unsatisfied"),
        )

    def num_not_judged(self) -> int:
        """Return how many of the unsatisfied policies a busy machine, or the end of the time, left open."""
        slots = [slot for task in self.tasks for slot in task.slots if slot.action == "unsatisfied"]
        num_slots = sum(any(one.outcome.status in NOT_JUDGED for one in slot.tried) for slot in slots)
        return num_slots + sum(graph.is_open for graph in self.graphs if graph.action == "unsatisfied")

    def has_unfinished(self) -> bool:
        """Tell whether the time budget left a candidate of an operator less time than it deserves."""
        tried = (one for task in self.tasks for slot in task.slots for one in slot.tried)
        return any(one.outcome.status == "unfinished" for one in tried)

    def failed(self) -> list[TaskOutcome]:
        """Return the tasks whose operator could not be run."""
        return [task for task in self.tasks if task.failure]

    def failed_graphs(self) -> list[GraphOutcome]:
        """Return the graphs that could not be run or must not be tuned."""
        return [graph for graph in self.graphs if graph.failure]

    def model_us(self) -> tuple[float, float] | None:
        """Return what the graphs take together, each called once, before and after; None when one has no time."""
        return together_us([graph.times_us() for graph in self.graphs if not graph.failure])

    def to_json(self) -> dict[str, Any]:
        """Return all but the findings as plain values, for `findings_document(findings, **…)`."""
        counters = self.counters()
        return {
            "status": self.status,
            "stopped_by": self.stopped_by,
            "recording": self.recording,
            "recorded_device": self.recorded_device,
            "machine": asdict(self.machine),
            "load_average": self.load_average,
            "min_gain": self.min_gain,
            "wall_s": self.wall_s,
            "job_type": self.job_type,
            "num_graphs": self.num_graphs,
            "graphs": [graph.to_json() for graph in self.graphs],
            "composed": [one.to_json() for one in self.composed],
            "precisions": [one.to_json() for one in self.precisions],
            "num_calls": self.num_calls,
            "num_tasks": self.num_tasks,
            "num_trials": self.num_trials,
            "num_measurements": self.num_measurements,
            "summary": asdict(counters)
            | {"hit": counters.hit, "total": counters.total, "not_judged": self.num_not_judged()},
            "tasks": [task.to_json() for task in self.tasks],
            "not_tuned": [asdict(one) for one in self.not_tuned],
            "providers": list(self.providers),
            "missing_providers": dict(self.missing_providers),
            "history": [one.to_json() for one in self.history],
            "notes": list(self.notes),
            "bank": self.bank,
            "result_file": None if self.result_file is None else str(self.result_file),
            "result_file_failure": self.result_file_failure,
        }


def improvement_percent_of(gain: Gain) -> float:
    """Return the vendor's improvement of a gain's medians, in percent."""
    return improvement_percent(gain.before_us, gain.after_us)


def together_us(times: Sequence[tuple[float, float] | None]) -> tuple[float, float] | None:
    """Return the sums of the times before and after; None when there is none or one is not known."""
    known = [pair for pair in times if pair is not None]
    if not times or len(known) < len(times):
        return None
    return sum(before for before, _ in known), sum(after for _, after in known)
