"""`in_order`: incidents of many logs in the order of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from jumar.advise.doctor.logs.ranks.summary import RankedIncident
from jumar.base.findings import Severity

IncidentT = TypeVar("IncidentT", bound=RankedIncident)


def in_order(incidents: Sequence[IncidentT], shifts: Mapping[Path, timedelta]) -> list[IncidentT]:
    """Order by time; `shifts` say how far the clock of a log is before the others'.

    Where the first error is only a consequence, errors of files without times come first.
    """
    timed = sorted((item for item in incidents if item.time is not None), key=lambda item: _time_of(item, shifts))
    untimed = [item for item in incidents if item.time is None]
    errors = [item for item in timed if item.severity is Severity.ERROR]
    if not errors or errors[0].role == "consequence":
        told = [item for item in untimed if item.severity is Severity.ERROR and item.role != "consequence"]
        return told + timed + [item for item in untimed if item not in told]
    return timed + untimed


def order_note(incidents: Sequence[RankedIncident], shifts: Mapping[Path, timedelta]) -> list[str]:
    """Say so where the first error follows from another one, and that one's time is later: a clock must be wrong."""
    errors = [item for item in incidents if item.severity is Severity.ERROR and item.time is not None]
    others = (item for item in errors if item.lead.path != errors[0].lead.path)
    cause = next((item for item in others if item.role in ("cause", "symptom")), None)
    if cause is None or errors[0].role != "consequence":
        return []
    seconds = (_time_of(cause, shifts) - _time_of(errors[0], shifts)).total_seconds()
    return [
        f"The first error by time ({errors[0].finding.where}) only follows from another one; the first other error "
        f"({cause.finding.where}) is printed {seconds:.0f} s later. Either the cause is in a log that is not here, or "
        "the clock of one node is wrong by at least that much."
    ]


def _time_of(incident: RankedIncident, shifts: Mapping[Path, timedelta]) -> datetime:
    assert incident.time is not None
    return incident.time - shifts.get(incident.lead.path, timedelta())
