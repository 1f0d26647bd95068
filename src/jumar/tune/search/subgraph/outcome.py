"""What subgraph tuning found for one graph, with everything that was tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from jumar.base.findings import Json
from jumar.tune.bank.entry import Tried
from jumar.tune.graph import Graph
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.model.gate import Gain, improvement_percent
from jumar.tune.plan import Plan

Action = Literal["add", "update", "reserved", "unsatisfied"]
"""The vendor's words, as for operators."""

Stage = Literal["baseline", "engines", "variants", "duel", "stitched", "confirmation", "model"]
"""`baseline`: TorchInductor's default; `engines`, `variants`: further plans, all against eager; `duel`: between
leaders; `stitched`: plans of several engines against the best of one; `confirmation`: a fresh process, other
inputs; `model`: before and after once more."""


NOT_JUDGED = frozenset({"busy", "unfinished"})
"""Outcomes that do not judge a candidate: it is measured again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One plan, what it was measured against (None: eager), and what became of it."""

    plan: Plan
    against: Plan | None
    stage: Stage
    outcome: Outcome
    is_left_out: bool = False
    """Not measured, on purpose: `outcome.detail` says why."""

    def to_json(self) -> dict[str, Json]:
        """Return the attempt as JSON values."""
        return {
            "plan": self.plan.to_json(),
            "summary": str(self.plan),
            "against": "eager" if self.against is None else str(self.against),
            "stage": self.stage,
            "is_left_out": self.is_left_out,
            "outcome": self.outcome.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of a graph that was cut, and how long it takes by itself."""

    first: int
    num_operators: int
    key: str
    """Equal for equal blocks, which are measured once."""
    engines_us: Mapping[str, float]
    """Microseconds by engine."""

    def to_json(self) -> dict[str, Json]:
        """Return the block as JSON values."""
        return {
            "first": self.first, "num_operators": self.num_operators, "key": self.key,
            "engines_us": dict(self.engines_us),
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Stitched:
    """A plan of several engines: what its blocks promised, and what it took from end to end."""

    plan: Plan
    engines: Sequence[str]
    """One a block."""
    promised_us: float
    measured_us: float | None

    def to_json(self) -> dict[str, Json]:
        """Return the plan as JSON values."""
        return {
            "plan": self.plan.to_json(), "engines": list(self.engines), "promised_us": self.promised_us,
            "measured_us": self.measured_us,
        }  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Cutting:
    """What cutting the graph into regions showed."""

    blocks: list[Block] = field(default_factory=list)
    best_whole: str = ""
    """The plan of one region that is fastest for the whole graph."""
    own_engine: str = ""
    """Its engine."""
    whole_us: float = 0.0
    stitched: list[Stitched] = field(default_factory=list)
    reason: str = ""
    """Why nothing was stitched, or why it went no further."""

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON values."""
        return {
            "blocks": [block.to_json() for block in self.blocks],
            "best_whole": self.best_whole,
            "own_engine": self.own_engine,
            "whole_us": self.whole_us,
            "stitched": [one.to_json() for one in self.stitched],
            "reason": self.reason,
        }


@dataclass(slots=True, kw_only=True)
class GraphOutcome:
    """One graph. `failure` says why the graph itself could not be run or tuned, empty when it could."""

    name: str
    graph: Graph
    action: Action = "unsatisfied"
    plan: Plan | None = None
    """What the bank holds now."""
    gain: Gain | None = None
    """Of the whole graph, before and after: the last measurement of this run, or the one in the bank."""
    baseline: Plan | None = None
    """What `gain` is against: the better of eager (None) and TorchInductor's default; when tuning again, the plan that
    was in the bank. When that plan is kept, what it replaced in the bank, else None."""
    attempts: list[Attempt] = field(default_factory=list)
    cutting: Cutting | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    """Engine to why it was not tried."""
    not_cut: dict[str, str] = field(default_factory=dict)
    """Pieces of the batch to why the graph is not cut into them."""
    notes: list[str] = field(default_factory=list)
    failure: str = ""
    stopped_by: str = ""
    """What ended the search before its own end."""
    from_bank: bool = False

    @property
    def repo_key(self) -> str:
        """The vendor's key of a subgraph: a 64-bit number in decimal."""
        return str(int(self.graph.key[:16], 16))

    @property
    def instead_of(self) -> str:
        """What `gain` is against, in words. The bank does not say which default, eager or inductor, was the faster."""
        if self.baseline is not None:
            return str(self.baseline)
        return "the faster default" if self.from_bank or self.action == "reserved" else "eager"

    @property
    def is_open(self) -> bool:
        """Tell whether something could not be judged, so that nothing may be concluded from finding nothing."""
        return bool(self.stopped_by) or any(one.outcome.status in NOT_JUDGED for one in self._last())

    def times_us(self) -> tuple[float, float] | None:
        """Return microseconds a call before and after; the same twice where nothing was found; None without any."""
        if self.gain is not None and self.plan is not None:
            return self.gain.before_us, self.gain.after_us
        times = [
            gain.after_us if one.plan == self.baseline else gain.before_us
            for one in self.attempts
            if (gain := one.outcome.gain) is not None and self.baseline in (one.plan, one.against)
        ]
        return (median(times), median(times)) if times else None

    def tried(self) -> list[Tried]:
        """Return the last outcome of every plan that was judged, as the bank keeps it."""
        last = {plan_id(one.plan): one for one in self.attempts if one.outcome.status not in NOT_JUDGED}
        return [Tried(policy=one.plan.policy(), outcome=one.outcome) for one in last.values()]

    def _last(self) -> Iterable[Attempt]:
        """Return the last attempt of each comparison: what was disturbed at first may have been measured later."""
        return {
            (plan_id(one.plan), "" if one.against is None else plan_id(one.against), one.stage): one
            for one in self.attempts
        }.values()

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        gain = self.gain
        return {
            "name": self.name,
            "key": self.graph.key,
            "repo_key": self.repo_key,
            "graph": str(self.graph),
            "action": self.action,
            "plan": None if self.plan is None else self.plan.to_json(),
            "summary": None if self.plan is None else str(self.plan),
            "gain": None if gain is None else gain.to_json(),
            "improvement_percent": None if gain is None else improvement_percent(gain.before_us, gain.after_us),
            "baseline": self.instead_of,
            "attempts": [one.to_json() for one in self.attempts],
            "cutting": None if self.cutting is None else self.cutting.to_json(),
            "left_out": dict(self.left_out),
            "not_cut": dict(self.not_cut),
            "notes": list(self.notes),
            "failure": self.failure,
            "stopped_by": self.stopped_by,
            "from_bank": self.from_bank,
        }


def plan_id(plan: Plan) -> str:
    """Return a digest of a plan, for looking it up."""
    from jumar.tune.model.task import digest

    return digest(plan.to_json())
