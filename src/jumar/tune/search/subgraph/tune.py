"""Tuning one graph: what the bank knows, else a search, and what came of it back into the bank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jumar.tune.bank.entry import Entry, stack_of, warning_of
from jumar.tune.bank.neighbours import Neighbour
from jumar.tune.bank.presence import missing, within
from jumar.tune.bank.store import Bank
from jumar.tune.engines.base import Engine
from jumar.tune.graph import Graph
from jumar.tune.measure.measuring import Measurer, OutOfBudget
from jumar.tune.measure.options import Space, TuneOptions
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.plan import KIND, absences
from jumar.tune.search.subgraph.outcome import GraphOutcome
from jumar.tune.search.subgraph.search import GraphSearch, eager_plan, is_default
from jumar.tune.search.subgraph.trials import GraphFailed, Measures, Trials
from jumar.tune.search.subgraph.whole import Step, whole_plans

if TYPE_CHECKING:
    from jumar.tune.graph.capture.captured import Captured
    from jumar.tune.providers.base import Provider


def tune_graph(
    captured: Captured,
    *,
    bank: Bank,
    machine: Machine,
    options: TuneOptions | None = None,
    measures: Measures | None = None,
    engines: Sequence[Engine] | None = None,
    space: Space | None = None,
    deadline_s: float | None = None,
    on_step: Step | None = None,
    outcome: GraphOutcome | None = None,
) -> GraphOutcome:
    """Find the plan that computes a captured graph fastest on `machine`, prove it, and keep it in `bank`.

    `measures` carries out the trials within a budget; without one a worker of this call's own does, within
    `options`. `deadline_s` is this graph's share of the time, in `measures.elapsed_s`. `outcome`, when given, is
    filled as the search goes on, so that an interruption leaves what was found so far. A graph that is not faster
    under any plan is remembered as that, with all that was tried. Never raises for what a candidate does; raises
    JumarError for a bank or worker that cannot be used.
    """
    options = options or TuneOptions(job_type=1)
    outcome = outcome or GraphOutcome(name=captured.name, graph=captured.graph)
    if engines is None:
        from jumar.tune.plan.engines import engines_on

        engines = engines_on(machine)
    job = _Job(captured, bank, machine, options, engines, space or Space(), outcome, on_step or _silent)
    if captured.reason_not_tuned:
        outcome.failure = captured.reason_not_tuned
    elif not job.answered_by_bank():
        _measured(job, measures, deadline_s)
    return outcome


def _measured(job: _Job, measures: Measures | None, deadline_s: float | None) -> None:
    if measures is not None:
        job.search(measures, deadline_s)
        return
    from jumar.tune.measure.worker.client import Worker
    from jumar.tune.plan.provider import sharing_builds

    with sharing_builds(), Worker(graph_providers(), device=job.machine.target) as worker:
        job.search(Measurer(job.options, worker), job.options.time_budget_s)


def graph_providers() -> list[Provider]:
    """Return what a worker needs that measures plans."""
    from jumar.tune.plan.provider import PlanProvider

    return [PlanProvider()]


def stale_engines(plan: Plan, engines: Sequence[Engine], machine: Machine) -> list[str]:
    """Return a sentence for each engine of a plan, and of its operators' policies, that is not here as measured."""
    found = [
        f"its plan was measured with {one.engine} {one.needed}, and here is {one.here}"
        if one.here
        else f"its plan needs {one.engine}, which is not available here"
        for one in absences(plan, engines, machine)
    ]
    return found + [f"the policies of its operators do not fit: {one}" for one in missing(within(plan), machine)]


class _Job:
    """One graph and all that tuning it needs."""

    def __init__(
        self,
        captured: Captured,
        bank: Bank,
        machine: Machine,
        options: TuneOptions,
        engines: Sequence[Engine],
        space: Space,
        outcome: GraphOutcome,
        on_step: Step,
    ) -> None:
        self._captured = captured
        self._bank = bank
        self.machine = machine
        self.options = options
        self._engines = engines
        self._space = replace(space, keeps_layout=True) if captured.keeps_layout else space
        self._outcome = outcome
        self._on_step = on_step

    def answered_by_bank(self) -> bool:
        """Fill the outcome from the bank; tell whether nothing need be measured."""
        entry = self._entry()
        if entry is None or self.options.repeat:
            return False
        if entry.policy is not None:
            plan = Plan.of(entry.policy)
            stale = stale_engines(plan, self._engines, self.machine)
            if stale or not self._is_complete(entry):
                self._outcome.notes += [f"The graph is in the bank, but {why}." for why in stale]
                return False
            self._reserve(plan, entry)
        elif self.options.min_gain < entry.min_gain or not self._is_complete(entry):
            return False
        self._outcome.from_bank = True
        return True

    def search(self, measures: Measures, deadline_s: float | None) -> None:
        """Search, and write what was found. Raises BankError, before anything is measured, where that is impossible."""
        self._bank.check_writable()
        if why := self._captured.keeps_layout:
            self._outcome.notes.append(f"No other layout was tried: {why}")
        entry = self._entry()
        known = self._usable(entry)
        trials = Trials(
            graph=self._captured.graph, data=str(self._captured.data) if self._captured.data else "",
            machine=self.machine, options=self.options, measures=measures, error_budget=self._space.error_budget,
            eager=eager_plan(self._engines), slow=frozenset(one.name for one in self._engines if one.is_slow_to_build),
            deadline_s=deadline_s, attempts=self._outcome.attempts,
        )  # fmt: skip
        engines = {engine.name: engine for engine in self._engines}
        search = GraphSearch(
            trials=trials, engines=engines, space=self._space, outcome=self._outcome, on_step=self._on_step,
            known=known, hints=[] if entry else self._from_neighbours(),
        )  # fmt: skip
        try:
            found = search.run()
        except GraphFailed as error:
            self._outcome.failure = str(error)
        except OutOfBudget as error:
            self._outcome.stopped_by = str(error)
            self._keep(entry)
        else:
            self._write(found, entry)

    def _from_neighbours(self) -> list[Plan]:
        """Return the plan of the nearest graph in the bank, fitted to this one, and note where it comes from."""

        for neighbour in self._bank.nearest(self._captured.graph, self.machine):
            plan = transferred(neighbour, self._captured.graph, self._engines, self.machine)
            if plan is not None and not (self._space.keeps_layout and _has_layout(plan)):
                self._outcome.notes.append(f"The search started from the plan of {neighbour}.")
                return [plan]
        return []

    def _write(self, found: tuple[Plan, Gain] | None, entry: Entry | None) -> None:
        outcome = self._outcome
        if found is None:
            self._keep(entry)
            if not outcome.is_open:
                self._settle(entry)
            return
        plan, gain = found
        change = self._bank.accept(
            outcome.graph, self.machine, plan.policy(), incumbent=stack_of([entry] if entry else []), gain=gain,
            min_gain=self.options.min_gain, tried=outcome.tried(), base=None if self._usable(entry) else (),
        )  # fmt: skip
        if change is None:
            outcome.notes.append("Another process changed what the bank holds for this graph; its plan was left there.")
            self._keep(self._entry())
            return
        outcome.action, outcome.plan, outcome.gain = change, plan, gain
        outcome.notes += filter(None, [warning_of(outcome.tried(), plan.policy())])

    def _settle(self, entry: Entry | None) -> None:
        """Note what has been tried by now, beside a plan that stays, so that it is not tried again for nothing."""
        tried = self._outcome.tried()
        if entry is None or entry.policy is None or self._usable(entry) is None:
            self._bank.remember_unsatisfied(
                self._outcome.graph, self.machine, KIND, incumbent=(), min_gain=self.options.min_gain, tried=tried,
                in_place_of=None if entry is None else entry.policy,
            )  # fmt: skip
        elif entry.gain is not None:
            old = [one for one in entry.tried if one.policy not in [other.policy for other in tried]]
            self._bank.accept(
                entry.task, self.machine, entry.policy, incumbent=stack_of([entry]), base=entry.base, gain=entry.gain,
                min_gain=entry.min_gain, tried=[*old, *tried],
            )  # fmt: skip

    def _keep(self, entry: Entry | None) -> None:
        """Say what the bank goes on holding, unless it cannot be used here."""
        plan = self._usable(entry)
        if entry is not None and plan is not None:
            self._reserve(plan, entry)

    def _reserve(self, plan: Plan, entry: Entry) -> None:
        """Say that the bank's plan stays, with the measurement that had let it in and what that was against."""
        self._outcome.action, self._outcome.plan, self._outcome.gain = "reserved", plan, entry.gain
        self._outcome.notes += filter(None, [warning_of(entry.tried, entry.policy)])
        self._outcome.baseline = next((Plan.of(one.policy) for one in entry.replaced()), None)

    def _usable(self, entry: Entry | None) -> Plan | None:
        """Return the plan of an entry; None without one that can be used here."""
        if entry is None or entry.policy is None:
            return None
        plan = Plan.of(entry.policy)
        return None if stale_engines(plan, self._engines, self.machine) else plan

    def _entry(self) -> Entry | None:
        return self._bank.slots(self._captured.graph, self.machine).get(KIND)

    def _is_complete(self, entry: Entry) -> bool:
        """Tell whether every plan of one region that would be tried now was tried, or left out on purpose, then."""
        tried = [one.policy for one in entry.tried]
        offers = whole_plans(self._captured.graph, self.machine, self._engines, self._space)
        return all(is_default(plan) or plan.policy() in tried for plan in offers.plans)


def _has_layout(plan: Plan) -> bool:
    """Tell whether an engine of a plan is told to compute in another layout."""
    return any(region.settings.get("layout") for region in plan.regions)


def _silent(_what: str) -> None:
    """Tell nobody."""


def transferred(neighbour: Neighbour, graph: Graph, engines: Sequence[Engine], machine: Machine) -> Plan | None:
    """Return the neighbour's plan for `graph`; None when an engine is not here, or does not take this graph.

    Regions stay: equal structure means equal numbers of values. A cut of the batch is scaled where the pieces come
    out whole, and dropped where they do not.
    """
    policy = next((one for one in neighbour.stack if one.kind == KIND), None)
    if policy is None:
        return None
    plan, known = Plan.of(policy), {engine.name: engine for engine in engines}
    for region in plan.regions:
        engine = known.get(region.engine)
        if engine is None or engine.unavailable(machine) or (not region.nodes and engine.unsupported(graph)):
            return None
    regions = tuple(_fitted(region, known[region.engine], neighbour, graph) for region in plan.regions)
    num_threads = None if plan.num_threads is None else min(plan.num_threads, machine.num_threads)
    batch = _scaled(plan.batch, graph)
    if plan.streams > 1 and not batch:  # nothing is left to run at once, each on a thread of its own
        return replace(plan, regions=regions, batch=(), streams=1, num_threads=None)
    return replace(plan, regions=regions, batch=batch, num_threads=num_threads)


def _fitted(region: Region, engine: Engine, neighbour: Neighbour, graph: Graph) -> Region:
    work, settings = neighbour.work, region.settings
    if isinstance(work, Graph):
        settings = engine.fitted(settings, work, graph)
    return replace(region, version=engine.version(), settings=settings)


def _scaled(batch: Sequence[int], graph: Graph) -> tuple[int, ...]:
    """Return the pieces of the batch in the same proportions for this graph's batch; empty where that is not whole."""
    rows = {graph.inputs[place].shape[0] for place in graph.variables if graph.inputs[place].shape}
    total = sum(batch)
    if not total or len(rows) != 1:
        return ()
    (size,) = rows
    pieces = [divmod(piece * size, total) for piece in batch]
    return () if any(rest or not whole for whole, rest in pieces) else tuple(whole for whole, _ in pieces)
