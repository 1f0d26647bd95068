"""What this process knows of the bank: opened once, when the first graph is compiled."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from jumar.errors import JumarError
from jumar.tune.backend.notes import say
from jumar.tune.bank import AskedPrecision, Bank, bank_place, built_in_place
from jumar.tune.bank.database import Database
from jumar.tune.bank.location import Place, data_folder
from jumar.tune.bank.precisions import keys_of
from jumar.tune.bank.tables import SlotRow
from jumar.tune.errors import NoBankError
from jumar.tune.graph import Graph
from jumar.tune.machine import Machine, this_machine
from jumar.tune.plan import Plan
from jumar.tune.plan.plan import KIND
from jumar.tune.precision.options import ERROR_BUDGET, parse_error

if TYPE_CHECKING:
    import torch

PLANS_FOLDER = "plans"
"""Beside the bank's file: plans that were built, so that the next process only loads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """The bank as the back end uses it, for one kind of device."""

    bank: Bank
    machine: Machine
    keys: frozenset[str]
    """Of the graphs for which the bank has a plan on this machine."""
    folder: Path
    """Where built plans are kept."""
    error_budget: float | None = None
    """The error that the user allows: what was chosen within it is taken; None: no precision is given up."""

    def plan(self, graph: Graph, weights: Mapping[int, torch.Tensor] | None = None) -> Plan | None:
        """Return the bank's plan for a graph; None when it has none, or cannot be read any more.

        With an error budget and the graph's weights it is the fastest plan that was chosen for those within the budget
        and can be used here, where there is one.
        """
        if graph.key not in self.keys:
            return None
        try:
            if self.error_budget is not None and weights is not None:
                lowered = self._within_budget(graph, weights, self.error_budget)
                if lowered is not None:
                    return lowered
            entry = self.bank.slots(graph, self.machine).get(KIND)
        except JumarError as error:
            say(f"the bank is not used: {error}")
            return None
        return None if entry is None or entry.policy is None else Plan.of(entry.policy)

    def _within_budget(self, graph: Graph, weights: Mapping[int, torch.Tensor], budget: float) -> Plan | None:
        from jumar.tune.backend.built import fingerprint, unusable

        def is_usable(plan: Plan) -> bool:
            why = unusable(plan, self.machine)
            if why:
                say(f"a plan in fewer bits is not used: {why}")
            return not why

        asked = AskedPrecision(task=graph, machine=self.machine, weights=fingerprint(weights), budget=budget)
        known = self.bank.precision(asked, is_usable)
        return None if known is None else known.plan


def knowledge(device: str, place: str | None = None) -> Knowledge | None:
    """Return what the bank knows for `device`; None, and one sentence where that is no ordinary case, without it.

    `place` is a folder or URL, None for the usual place. The bank is read once a process and number of threads.
    """
    import torch

    return _knowledge(device, place, _environment(os.environ), torch.get_num_threads())


def forget() -> None:
    """Read the bank again when the next graph is compiled."""
    _knowledge.cache_clear()


def _environment(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    names = ("TUNE_BANK_PATH", "ASCEND_CACHE_PATH", "XDG_DATA_HOME", "HOME", "JUMAR_BUILT_IN_BANK", ERROR_BUDGET)
    return tuple((name, environ[name]) for name in names if name in environ)


@functools.cache
def _knowledge(
    device: str, place: str | None, environment: tuple[tuple[str, str], ...], num_threads: int
) -> Knowledge | None:
    environ = dict(environment)
    try:
        where = bank_place(place, environ)
        beneath = built_in_place(environ)
        machine = replace(this_machine(device), num_threads=num_threads)
        budget = parse_error(environ[ERROR_BUDGET]) if environ.get(ERROR_BUDGET) else None
        bank = Bank.layers(where, beneath)
        layers = [layer for layer in (where, beneath) if layer is not None]
        keys = frozenset(key for layer in layers for key in _graph_keys(layer, machine, lowered=budget is not None))
        folder = plans_folder(where, environ)
    except JumarError as error:
        say(f"models are compiled untuned: {error}")
        return None
    return Knowledge(bank=bank, machine=machine, keys=keys, folder=folder, error_budget=budget)


def _graph_keys(place: Place, machine: Machine, *, lowered: bool) -> list[str]:
    """Return the keys of the graphs that have a plan for `machine`, without reading the plans; none without a bank.

    With `lowered` also of those that have one in fewer bits only.
    """
    try:
        database = Database.open(place, create=False)
    except NoBankError:
        return []
    try:
        with database.reading() as session:
            fewer = keys_of(session, machine.key) if lowered else []
            query = sa.select(SlotRow.task_key, SlotRow.policy).where(
                SlotRow.kind == KIND, SlotRow.machine_key == machine.key
            )
            return [*fewer, *(key for key, policy in session.execute(query).all() if policy)]
    finally:
        database.close()


def plans_folder(place: Place, environ: Mapping[str, str]) -> Path:
    """Return the folder of built plans of the bank at `place`; of a bank by URL, one in the user's own data.

    Raises BankError where that has no place.
    """
    if isinstance(place, Path):
        return place / PLANS_FOLDER
    return data_folder(environ) / PLANS_FOLDER
