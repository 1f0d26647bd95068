"""Whether the engines that a plan needs are here, in the version that it was measured with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jumar.tune.engines.base import Engine
from jumar.tune.machine import Machine
from jumar.tune.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Absence:
    """An engine of a plan that is not here, or is here in another version."""

    engine: str
    needed: str
    """Version; empty when the plan does not say."""
    here: str
    """Version; empty when the engine is not here at all."""
    reason: str = ""
    """Why an engine that Jumar has cannot be used."""


def absences(plan: Plan, engines: Sequence[Engine], machine: Machine) -> list[Absence]:
    """Return what of a plan is not here, each engine once."""
    known = {engine.name: engine for engine in engines}
    found = [absence_of(region.engine, region.version, known.get(region.engine), machine) for region in plan.regions]
    return [one for one in dict.fromkeys(found) if one is not None]


def absence_of(name: str, needed: str, engine: Engine | None, machine: Machine) -> Absence | None:
    """Return what is wrong with an engine that is needed in a version; None when it is here."""
    reason = "" if engine is None else engine.unavailable(machine)
    here = "" if engine is None or reason else engine.version()
    return None if here and here == needed else Absence(name, needed, here, reason)
