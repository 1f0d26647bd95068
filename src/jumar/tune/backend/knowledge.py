"""What this process knows of the bank: read when a graph is compiled, and again once its file was written to."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from jumar.base.errors import JumarError
from jumar.tune.bank.database import Database
from jumar.tune.bank.location import FILE_NAME, Place, bank_place, built_in_place, data_folder
from jumar.tune.bank.precisions import keys_of
from jumar.tune.bank.rows import SlotRow
from jumar.tune.bank.store import Bank
from jumar.tune.graph import Graph
from jumar.tune.measure.options import ERROR_BUDGET, parse_error
from jumar.tune.model.errors import NoBankError
from jumar.tune.model.machine import Machine, this_machine
from jumar.tune.model.notes import say
from jumar.tune.plan import Plan
from jumar.tune.plan.plan import KIND

if TYPE_CHECKING:
    import torch

PLANS_FOLDER = "plans"
"""Beside the bank's file: plans that were built, so that the next process only loads them."""
MEASURED = "cpu"
"""The kind of device that plans are measured on."""
KEPT = 16
"""States of banks that are remembered at most."""


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
        from jumar.tune.bank.presence import lowered_within

        known = lowered_within(
            budget, self.bank, graph, weights, self.machine,
            lambda why: say(f"a plan in fewer bits is not used: {why}"),
        )  # fmt: skip
        return None if known is None else known.plan


def knowledge(device: str, place: str | os.PathLike[str] | None = None) -> Knowledge | None:
    """Return what the bank knows for `device`; None, and one sentence where that is no ordinary case, without it.

    `place` is a folder or URL, None for the usual place. The bank is read once a process, number of threads and state
    of its file: what was tuned meanwhile is found after `torch._dynamo.reset()`. A database by URL is read once.
    """
    import torch

    if device != MEASURED:
        say(f"what runs on {device} is compiled untuned: plans are measured on the CPU.")
        return None
    named, environment = None if place is None else os.fspath(place), _environment(os.environ)
    return _knowledge(named, environment, torch.get_num_threads(), _written(named, dict(environment)))


def forget() -> None:
    """Read the bank again when the next graph is compiled."""
    _knowledge.cache_clear()


def _environment(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    names = ("TUNE_BANK_PATH", "ASCEND_CACHE_PATH", "XDG_DATA_HOME", "HOME", "JUMAR_BUILT_IN_BANK", ERROR_BUDGET)
    return tuple((name, environ[name]) for name in names if name in environ)


def _written(place: str | None, environ: Mapping[str, str]) -> tuple[tuple[int, int] | None, ...]:
    """Return when the files of the bank, and of the layer beneath it, were written, and their sizes."""
    try:
        places = (bank_place(place, environ), built_in_place(environ))
    except JumarError:  # `_knowledge` says so
        return ()
    return tuple(_state(one / FILE_NAME) for one in places if isinstance(one, Path))


def _state(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@functools.lru_cache(maxsize=KEPT)
def _knowledge(
    place: str | None, environment: tuple[tuple[str, str], ...], num_threads: int,
    _states: tuple[tuple[int, int] | None, ...],
) -> Knowledge | None:  # fmt: skip
    environ = dict(environment)
    try:
        where = bank_place(place, environ)
        beneath = built_in_place(environ)
        machine = replace(this_machine(MEASURED), num_threads=num_threads)
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
