"""What was chosen under an error budget: plans in fewer bits, which hold for one set of weights.

They are no policies: nothing is measured on top of them, and nobody gets one who did not ask for its budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from jumar.base.findings import Json
from jumar.tune.bank import rows
from jumar.tune.bank.entry import Entry, Merged, Tried, time_from
from jumar.tune.bank.rows import MachineRow, PrecisionRow, TaskRow
from jumar.tune.graph.graph import Work, work_from_json
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Policy
from jumar.tune.plan.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPrecision:
    """What a user asks for."""

    task: Work
    machine: Machine
    weights: str
    """Digest of the weights' values."""
    budget: float
    metric: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPrecision:
    """What was chosen for it."""

    asked: AskedPrecision
    error: float
    plan: Plan
    gain: Gain
    """Against the best plan in the graph's own precision."""
    updated: str

    @property
    def task(self) -> Work:
        """The graph."""
        return self.asked.task

    @property
    def machine(self) -> Machine:
        """Where it was measured."""
        return self.asked.machine

    @property
    def kind(self) -> str:
        """In the column of the kinds of policies: `Precision, error 0.0081 of 0.01`."""
        of = f" of {self.asked.metric}" if self.asked.metric else ""
        return f"Precision, error{of} {self.error:.2g} of {self.asked.budget:.2g}"

    @property
    def policy(self) -> Policy:
        """The plan as a policy."""
        return self.plan.policy()

    @property
    def tried(self) -> Sequence[Tried]:
        """Nothing: the points of the search that were not chosen are in its report."""
        return ()

    def to_json(self) -> dict[str, Json]:
        """Return the choice as JSON values."""
        asked = self.asked
        return {
            "task_key": asked.task.key, "task": asked.task.to_json(), "machine_key": asked.machine.key,
            "machine": asdict(asked.machine), "weights": asked.weights, "budget": asked.budget,
            "metric": asked.metric, "error": self.error, "policy": self.policy.to_json(),
            "gain": self.gain.to_json(), "updated": self.updated,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> KnownPrecision:
        """Rebuild from `to_json`. Raises KeyError, TypeError or ValueError on foreign input."""
        asked = AskedPrecision(
            task=work_from_json(data["task"]), machine=Machine.from_json(data["machine"]),
            weights=str(data["weights"]), budget=float(data["budget"]), metric=str(data["metric"]),
        )  # fmt: skip
        return cls(
            asked=asked, error=float(data["error"]), plan=Plan.of(Policy.from_json(data["policy"])),
            gain=Gain.from_json(data["gain"]), updated=time_from(data["updated"]),
        )  # fmt: skip


Known = Entry | KnownPrecision
"""What a bank holds."""


def put(session: Session, known: KnownPrecision) -> None:
    """Write a choice in the place of the one for the same question; the table is made where there is none."""
    PrecisionRow.__table__.create(session.connection(), checkfirst=True)  # type: ignore[attr-defined]  # it is a Table
    asked = known.asked
    rows.name(session, asked.task, asked.machine)
    session.execute(sa.delete(PrecisionRow).where(*_same(asked), PrecisionRow.budget == asked.budget))
    session.add(
        PrecisionRow(
            graph_key=asked.task.key,
            machine_key=asked.machine.key,
            weights=asked.weights,
            metric=asked.metric,
            budget=asked.budget,
            error=known.error,
            point={"plan": known.plan.to_json(), "gain": known.gain.to_json()},
            updated=known.updated,
        )
    )


def find(
    session: Session, asked: AskedPrecision, is_usable: Callable[[Plan], bool] | None = None
) -> KnownPrecision | None:
    """Return the fastest choice whose error is within the budget and whose plan is usable; None without any.

    Raises UnreadableRowError.
    """
    if not has_table(session):
        return None
    query = sa.select(PrecisionRow).where(*_same(asked), PrecisionRow.error <= asked.budget)
    with rows.reading_row():
        found = [_known(row, asked.task, asked.machine) for row in session.scalars(query)]
    usable = [one for one in found if is_usable is None or is_usable(one.plan)]
    return max(usable, key=lambda one: one.gain.ratio_low, default=None)


def keys_of(session: Session, machine_key: str) -> list[str]:
    """Return the keys of the graphs for which there is a choice on a machine."""
    if not has_table(session):
        return []
    return list(session.scalars(sa.select(PrecisionRow.graph_key).where(PrecisionRow.machine_key == machine_key)))


def everything(session: Session) -> list[KnownPrecision]:
    """Return all choices, the newest first; `problems` names those that cannot be read."""
    return [known for _, known in _read(session) if isinstance(known, KnownPrecision)]


def merge(session: Session, new: Iterable[KnownPrecision], beneath: Sequence[KnownPrecision | None]) -> Merged:
    """Take over choices that gain more than what is here, or in the layer beneath, for the same question."""
    counts = Merged()
    mine = {question_of(one): one for one in everything(session)}
    for one, below in zip(new, beneath, strict=True):
        known = mine.get(question_of(one))
        if below is not None and below.gain.ratio_low >= one.gain.ratio_low:
            counts.num_built_in += 1
        elif known is None or known.gain.ratio_low < one.gain.ratio_low:
            counts.num_added += known is None
            counts.num_better += known is not None
            put(session, one)
            mine[question_of(one)] = one
        else:
            counts.num_kept += 1
    return counts


def remove(session: Session, asked: AskedPrecision) -> None:
    """Forget what was chosen for a question."""
    if has_table(session):
        session.execute(sa.delete(PrecisionRow).where(*_same(asked), PrecisionRow.budget == asked.budget))


def problems(session: Session) -> Iterator[str]:
    """Yield a sentence for each choice that cannot be read, or that no measurement lets in."""
    for key, known in _read(session):
        place = f"Precision of {key[:12]}"
        if isinstance(known, str):
            yield f"{place} {known}"
        elif not known.error <= known.asked.budget:
            yield f"{place} has the error {known.error:g}, above its budget of {known.asked.budget:g}"
        elif not known.gain.ratio_low > 1:
            yield f"{place} has no measurement that shows it faster"


def has_table(session: Session) -> bool:
    """Tell whether the bank has the table: one that was made before there was any has not."""
    return sa.inspect(session.connection()).has_table(PrecisionRow.__tablename__)


def _read(session: Session) -> Iterator[tuple[str, KnownPrecision | str]]:
    """Yield the graph's key of each row, the newest first, with what the row says, or why it cannot be read."""
    if not has_table(session):
        return
    names = sa.select(PrecisionRow.id, PrecisionRow.graph_key, PrecisionRow.machine_key)
    for number, graph, machine in session.execute(names.order_by(PrecisionRow.updated.desc(), PrecisionRow.id)).all():
        try:
            with rows.reading_row():
                known = _read_one(session, number, graph, machine)
        except rows.UnreadableRowError as error:
            yield graph, f"cannot be read: {error}"
        else:
            yield graph, known


def _read_one(session: Session, number: int, graph_key: str, machine_key: str) -> KnownPrecision | str:
    """Return a row, or what is wrong with what it names. Raises what reading a damaged row raises."""
    task, machine = session.get(TaskRow, graph_key), session.get(MachineRow, machine_key)
    if task is None or machine is None:
        return f"lacks its {'graph' if task is None else 'machine'}"
    row = session.get_one(PrecisionRow, number)
    known = _known(row, work_from_json(task.spec), Machine.from_json(machine.properties))
    is_filed = known.task.key == graph_key and known.machine.key == machine_key
    return known if is_filed else "is filed under another key than its own"


def _known(row: PrecisionRow, task: Work, machine: Machine) -> KnownPrecision:
    """Return a row. Raises KeyError, TypeError or ValueError for one that nobody of this version wrote."""
    asked = AskedPrecision(task=task, machine=machine, weights=row.weights, budget=row.budget, metric=row.metric)
    plan, gain = Plan.from_json(row.point["plan"]), Gain.from_json(row.point["gain"])
    return KnownPrecision(asked=asked, error=row.error, plan=plan, gain=gain, updated=time_from(row.updated))


def question_of(known: KnownPrecision) -> tuple[str, str, str, str, float]:
    """Return what tells a choice from all others: of two for the same question a bank keeps one."""
    asked = known.asked
    return asked.task.key, asked.machine.key, asked.weights, asked.metric, asked.budget


def _same(asked: AskedPrecision) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        PrecisionRow.graph_key == asked.task.key,
        PrecisionRow.machine_key == asked.machine.key,
        PrecisionRow.weights == asked.weights,
        PrecisionRow.metric == asked.metric,
    )
