"""`Candidate`: one way to compute something that a tuning tried, from a journal, a bank or a saved result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jumar.tune.bank.entry import Entry, Tried, policy_from_json
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.model.gate import Gain
from jumar.view.data.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What became of a candidate. Ratios are before over after: above 1 is faster."""

    of: str
    name: str
    status: str
    detail: str = ""
    before_us: float | None = None
    after_us: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    """The ends of the 95 % interval; infinite where too few pairs were measured."""
    error: float | None = None
    """Greatest error of its outputs, relative to the reference's greatest value."""

    @property
    def is_measured(self) -> bool:
        """Whether there is a finite interval to draw."""
        return self.ratio is not None and self.low is not None and self.high is not None and math.isfinite(self.high)


def of_outcome(of: str, name: str, outcome: Outcome) -> Candidate:
    """Return a candidate with what became of it."""
    found = Candidate(of=of, name=name, status=outcome.status, detail=outcome.detail, error=outcome.worst_error)
    return found if outcome.gain is None else _timed(found, outcome.gain)


def _timed(one: Candidate, gain: Gain) -> Candidate:
    return replace(
        one, before_us=gain.before_us, after_us=gain.after_us, ratio=gain.ratio, low=gain.ratio_low,
        high=gain.ratio_high,
    )  # fmt: skip


def of_journal(journal: Journal) -> list[Candidate]:
    """Return the candidates of a journal in the order of time."""
    return [
        of_outcome(one.of or "(not named)", one.candidate or f"candidate {one.number}", one.outcome)
        for one in journal.screenings
    ]


def of_entry(entry: Entry) -> list[Candidate]:
    """Return what was tried for an entry of a bank."""
    return [of_outcome(entry.task.operator, str(one.policy), one.outcome) for one in entry.tried]


def of_document(data: Mapping[str, Any]) -> list[Candidate]:
    """Return the candidates of a saved result of `jumar tune --json`; what cannot be understood is left out."""
    found: list[Candidate] = []
    for task in _dicts(data.get("tasks")):
        for slot in _dicts(task.get("slots")):
            found += _tried(str(task.get("name") or task.get("operator") or ""), slot.get("tried"))
    for graph in _dicts(data.get("graphs")):
        for one in _dicts(graph.get("attempts")):
            outcome = _outcome(one.get("outcome"))
            if outcome is not None:
                found.append(of_outcome(str(graph.get("name", "")), str(one.get("summary", "")), outcome))
    for one in _dicts(data.get("precisions")):
        found += list(_points(str(one.get("name", "")), one.get("points")))
    return found


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _tried(of: str, value: Any) -> Iterator[Candidate]:
    for one in _dicts(value):
        try:
            tried = Tried.from_json(dict(one))
            yield of_outcome(of, str(tried.policy), tried.outcome)
        except (KeyError, TypeError, ValueError, AttributeError):
            outcome = _outcome(one.get("outcome"))
            if outcome is not None:
                yield of_outcome(of, _policy_name(one.get("policy")), outcome)


def _policy_name(value: Any) -> str:
    try:
        return str(policy_from_json(value))
    except (KeyError, TypeError, ValueError, AttributeError):
        return str(value.get("provider", "?")) if isinstance(value, Mapping) else "?"


def _outcome(value: Any) -> Outcome | None:
    try:
        return Outcome.from_json(value)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _points(of: str, value: Any) -> Iterator[Candidate]:
    for one in _dicts(value):
        try:
            gain, error = Gain.from_json(one["gain"]), float(one["error"])
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        yield _timed(Candidate(of=of, name=str(one.get("name", "")), status="measured", error=error), gain)


def pareto(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the measured candidates that no other beats in speed and error, the most exact first."""
    known = [one for one in candidates if one.ratio is not None and one.error is not None and math.isfinite(one.error)]
    front: list[Candidate] = []
    for one in sorted(known, key=lambda one: (-(one.ratio or 0.0), one.error)):
        if all((one.error or 0.0) < (other.error or 0.0) for other in front):
            front.append(one)
    return front[::-1]
