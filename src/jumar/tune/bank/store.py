"""The bank: what was measured, written so that many processes may share it and a kill leaves it whole.

A policy was measured on top of the other kinds' policies. `accept` therefore takes the stack that was
the incumbent and refuses when another process has changed it meanwhile, so that the bank never holds a
stack that nobody measured. For the same reason a task is answered by one layer only: the bank's own when
it knows anything of the task, else the one beneath.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.orm import Session

from jumar.tune.bank import precisions, rows
from jumar.tune.bank.database import Database, now
from jumar.tune.bank.entry import Entry, Merged, Tried, by_task, merged, stack_of
from jumar.tune.bank.location import Place
from jumar.tune.bank.neighbours import Neighbour, neighbours
from jumar.tune.bank.precisions import AskedPrecision, Known, KnownPrecision
from jumar.tune.bank.rows import SlotRow, TaskRow
from jumar.tune.graph.graph import Work
from jumar.tune.model.errors import NoBankError
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Policy, PolicyKind, Stack
from jumar.tune.plan.plan import Plan, worded

Change = Literal["add", "update"]


class Bank:
    """The knowledge bank at a place. Safe to open in many processes; build it with `Bank.open`."""

    def __init__(self, database: Database, beneath: Bank | None = None) -> None:
        self._database = database
        self._beneath = beneath

    @classmethod
    def open(cls, place: Place, *, create: bool = True, beneath: Bank | None = None) -> Bank:
        """Open the bank at `place` (a folder, or a database's URL), made when there is none and `create` is set.

        `beneath` is asked for tasks of which this one knows nothing; nothing is written to it. Raises BankError
        as `Database.open` does.
        """
        return cls(Database.open(place, create=create), beneath)

    @classmethod
    def layers(cls, place: Place, beneath: Place | None) -> Bank:
        """Open the bank at `place`, which is not made, above the one at `beneath`; while there is none, that one alone.

        It is for reading only: what is written would go into the layer beneath. Raises BankError as `open` does.
        """
        below = None if beneath is None else cls.open(beneath, create=False)
        try:
            return cls.open(place, create=False, beneath=below)
        except NoBankError:
            if below is None:
                raise
            return below

    @property
    def name(self) -> str:
        """File, or URL without its password."""
        return self._database.name

    def close(self) -> None:
        """Close what is open."""
        self._database.close()
        if self._beneath is not None:
            self._beneath.close()

    def slots(self, task: Work, machine: Machine) -> dict[PolicyKind, Entry]:
        """Return what is known of `task` on `machine`, by kind."""
        with self._database.reading() as session:
            return {entry.kind: entry for entry in self._slots(session, task, machine)}

    def entries(self) -> list[Entry]:
        """Return everything of this layer, by operator, then newest first."""
        with self._database.reading() as session:
            return [rows.entry_of(row) for row in _all(session)]

    def answers(self) -> list[Entry]:
        """Return the entries of every layer that answer: of each task those of the uppermost layer that knows it."""
        own = self.entries()
        known = {(entry.task.key, entry.machine.key) for entry in own}
        below = [] if self._beneath is None else self._beneath.answers()
        return [*own, *(entry for entry in below if (entry.task.key, entry.machine.key) not in known)]

    def everything(self) -> list[Known]:
        """Return all that this layer holds: `entries`, then `precisions`."""
        return [*self.entries(), *self.precisions()]

    def nearest(self, task: Work, machine: Machine, limit: int = 5) -> list[Neighbour]:
        """Return what is known of the same computation at other sizes or on other versions, the nearest first.

        Only what has policies and is of the same device; the layer beneath answers, too. The policies hold for what
        they were measured on: they are where a search starts, and the result says so.
        """
        with self._database.reading() as session:
            entries = rows.alike(session, task, by_structure=self._database.has_structures(session))
        found = neighbours(task, machine, entries, limit)
        below = self._beneath.nearest(task, machine, limit) if self._beneath is not None else []
        return sorted([*found, *below], key=lambda one: one.distance)[:limit]

    def accept(
        self, task: Work, machine: Machine, policy: Policy, *, incumbent: Stack, gain: Gain, min_gain: float,
        tried: Sequence[Tried], base: Stack | None = None,
    ) -> Change | None:  # fmt: skip
        """Write `policy`, which was measured faster than `base` (None: `incumbent`) by `gain`.

        Returns "add" when its kind had none, "update" when it replaces one, and None, writing nothing,
        when `incumbent` is no longer what the bank holds: measure again on top of that. Policies of `incumbent` that
        are not in `base`, because they cannot be used here, are forgotten: nobody measured them with this one.
        """
        with self._database.writing() as session:
            entries = self._slots(session, task, machine)
            if stack_of(entries) != incumbent:
                return None
            known = next((entry for entry in entries if entry.kind == policy.kind), None)
            base = incumbent if base is None else base
            entry = replace(_new(task, machine, policy.kind, base, min_gain, tried), policy=policy, gain=gain)
            self._put(session, entry if known is None else entry.after(known))
            for other in entries:
                if other.kind != policy.kind and other.policy is not None and other.policy not in base:
                    rows.remove(session, task, machine, other.kind)
            return "update" if known is not None and known.policy is not None else "add"

    def check_writable(self) -> None:
        """Raise BankError where nothing can be written: before hours of measuring, and not at their end."""
        self._database.check_writable()

    def remember_unsatisfied(
        self, task: Work, machine: Machine, kind: PolicyKind, *, incumbent: Stack, min_gain: float,
        tried: Sequence[Tried], in_place_of: Policy | None = None,
    ) -> None:  # fmt: skip
        """Note that nothing in `tried` cleared the gate, so that it is not tuned again for nothing.

        A policy that is there (another process may have found one) stays, unless it is `in_place_of`: one that cannot
        be used here.
        """
        with self._database.writing() as session:
            entries = {entry.kind: entry for entry in self._slots(session, task, machine)}
            if kind not in entries or entries[kind].policy in (None, in_place_of):
                self._put(session, _new(task, machine, kind, incumbent, min_gain, tried))

    def keep_precision(self, known: KnownPrecision) -> None:
        """Write what was chosen for a graph under an error budget, in the place of what was chosen for it before."""
        with self._database.writing() as session:
            precisions.put(session, known)

    def forget_precision(self, asked: AskedPrecision) -> None:
        """Remove what this layer holds for a graph, its weights, machine, metric and budget."""
        with self._database.writing() as session:
            precisions.remove(session, asked)

    def precision(
        self, asked: AskedPrecision, is_usable: Callable[[Plan], bool] | None = None
    ) -> KnownPrecision | None:
        """Return the fastest that was chosen for a graph, its weights and machine, with an error within the budget.

        Of those whose plan `is_usable`, where that is given.
        """
        with self._database.reading() as session:
            found = precisions.find(session, asked, is_usable)
        return found if found is not None or self._beneath is None else self._beneath.precision(asked, is_usable)

    def precisions(self) -> list[KnownPrecision]:
        """Return everything of this layer that was chosen under an error budget, the newest first."""
        with self._database.reading() as session:
            return precisions.everything(session)

    def merge(self, known: Iterable[Known]) -> Merged:
        """Take over what another bank knows; see `jumar.tune.bank.entry` for what is kept.

        Of choices under an error budget, for the same question, the one that gains more.
        """
        counts, everything = Merged(), list(known)
        entries = [one for one in everything if isinstance(one, Entry)]
        lowered = [one for one in everything if not isinstance(one, Entry)]
        under = [None if self._beneath is None else self._beneath.precision(one.asked) for one in lowered]
        with self._database.writing() as session:
            if lowered:
                counts += precisions.merge(session, lowered, under)
            for new in by_task(entries):
                task, machine = new[0].task, new[0].machine
                mine = rows.slots(session, task, machine)
                beneath = self._beneath_of(task, machine)
                kept = merged(mine, new, beneath, counts)
                if kept is not mine:
                    rows.remove(session, task, machine)
                    for entry in kept:
                        rows.put(session, entry)
        return counts

    def prune(self, drop: Callable[[Known], bool], *, dry_run: bool = False) -> list[Known]:
        """Remove every task of a machine of which `drop` says so of all its entries; return what is removed.

        Whole tasks, because the policies of one task were measured on top of each other. Choices under an error
        budget stand for themselves.
        """
        dropped: list[Known] = []
        with self._database.writing() as session:
            for known in filter(drop, precisions.everything(session)):
                dropped.append(known)
                if not dry_run:
                    precisions.remove(session, known.asked)
            for entries in by_task([rows.entry_of(row) for row in _all(session)]):
                if all(map(drop, entries)):
                    dropped += entries
                    if not dry_run:
                        rows.remove(session, entries[0].task, entries[0].machine)
            if not dry_run:
                rows.remove_unused(session, with_precisions=precisions.has_table(session))
        return dropped

    def problems(self) -> list[str]:
        """Return what is wrong with the bank, one sentence each: the file, rows, keys, policies nobody measured."""
        found = self._database.problems()
        entries: list[Entry] = []
        with self._database.reading() as session:
            names = session.execute(sa.select(SlotRow.id, SlotRow.kind, SlotRow.task_key, SlotRow.machine_key)).all()
            for number, kind, task_key, machine_key in names:
                place = f"{kind} of {str(task_key)[:12]}"
                try:
                    with rows.reading_row():
                        entry = rows.entry_of(session.get_one(SlotRow, number))
                except (rows.UnreadableRowError, sa.exc.NoResultFound) as error:
                    found.append(f"{place} cannot be read: {error}")
                    continue
                entries.append(entry)
                if entry.task.key != task_key or entry.machine.key != machine_key:
                    found.append(f"{place} is filed under another key than its own")
            found += precisions.problems(session)
        for of_task in by_task(entries):
            found += _unmeasured(of_task)
        return found

    def _slots(self, session: Session, task: Work, machine: Machine) -> list[Entry]:
        """Return the entries of the layer that answers for a task."""
        return rows.slots(session, task, machine) or self._beneath_of(task, machine)

    def _beneath_of(self, task: Work, machine: Machine) -> list[Entry]:
        return list(self._beneath.slots(task, machine).values()) if self._beneath is not None else []

    def _put(self, session: Session, entry: Entry) -> None:
        """Write an entry; of a task that only the layer beneath knows, with what it was measured on top of."""
        if not rows.slots(session, entry.task, entry.machine):
            for below in self._beneath_of(entry.task, entry.machine):
                rows.put(session, below)
        rows.put(session, entry)


def _all(session: Session) -> Sequence[SlotRow]:
    order = (TaskRow.operator, SlotRow.updated.desc(), SlotRow.id)
    return session.scalars(sa.select(SlotRow).join(SlotRow.task).order_by(*order)).all()


def _new(
    task: Work, machine: Machine, kind: PolicyKind, incumbent: Stack, min_gain: float, tried: Sequence[Tried]
) -> Entry:
    """Return an entry without a policy, made now."""
    time = now()
    return Entry(
        task=task, machine=machine, kind=kind, policy=None, base=incumbent, gain=None, min_gain=min_gain,
        tried=tuple(tried), created=time, updated=time,
    )  # fmt: skip


def _unmeasured(entries: Sequence[Entry]) -> list[str]:
    """Return a sentence for each policy without a measurement that lets it in."""
    sentences = []
    for entry in entries:
        if entry.policy is not None and (entry.gain is None or not entry.gain.clears(entry.min_gain)):
            sentences.append(
                f"{entry.kind} {worded(entry.policy)} of {entry.task.key[:12]} has no measurement that clears its gate"
            )
    return sentences
