"""What a run measured, in the order of time: where the time went, and how the search went on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from jumar.tune.measure.worker.messages import Outcome

Role = Literal["screening", "confirmation", "build"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One candidate that was built, screened or confirmed."""

    name: str
    """Of the operator or graph."""
    candidate: str
    """The stack that was tried, in words."""
    provider: str
    role: Role
    status: str
    at_s: float
    """When it ended, in seconds since the run began."""
    took_s: float
    ratio: float | None = None
    """Before over after; None when it was not measured."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    before_us: float | None = None
    after_us: float | None = None
    reused: bool = False
    """Taken over from the job file of a run that was interrupted: took no time now."""
    where: str = ""
    """The machine of a cluster that measured it."""

    @classmethod
    def of(
        cls, outcome: Outcome, *, name: str, candidate: str, provider: str, role: Role, at_s: float, took_s: float,
        reused: bool = False, where: str = "",
    ) -> Measurement:  # fmt: skip
        """Return what `outcome` says, with its place in the run."""
        gain = outcome.gain
        return cls(
            name=name, candidate=candidate, provider=provider, role=role, status=outcome.status, at_s=at_s,
            took_s=took_s, reused=reused, where=where,
            ratio=None if gain is None else gain.ratio,
            ratio_low=None if gain is None else gain.ratio_low,
            ratio_high=None if gain is None else gain.ratio_high,
            before_us=None if gain is None else gain.before_us,
            after_us=None if gain is None else gain.after_us,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return every field; unbounded ends of the interval are the string `inf`."""
        data = asdict(self)
        return {name: "inf" if value == float("inf") else value for name, value in data.items()}
