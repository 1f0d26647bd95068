"""What tuner and worker say to each other, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from jumar.base.findings import Json
from jumar.tune.graph.graph import Work, work_from_json
from jumar.tune.model.gate import Gain
from jumar.tune.model.task import Stack, stack_from_json, stack_to_json

Status = Literal[
    "measured", "busy", "disagrees", "failed", "task-failed", "memory", "timeout", "unfinished", "died", "built"
]
"""What became of a candidate.

- `measured`: outputs agree, times are there;
- `busy`: the machine did not let it be judged: other programs used it, so that too few pairs are undisturbed, or it
  had no room on a disk (`NO_ROOM`);
- `disagrees`: outputs do not agree;
- `failed`: the candidate raised; `task-failed`: the operator itself raised;
- `memory`, `timeout`: over the limit;
- `unfinished`: the budget left it less time than a candidate deserves, and that was not enough: it is not judged;
- `died`: the process was ended by a signal or left without an answer;
- `built`: nothing more was asked for, and it runs.
"""

NO_ROOM = "a disk is full, or may not be written to"
"""How the detail of what was not judged for that begins."""

Phase = Literal["start", "task", "candidate", "measure"]
"""How far a child came: making the inputs and running the operator itself, then the candidate, then timing."""


LEAST_PAIRS = 12
"""The fewest whose 95 % interval leaves out two outliers on either side."""
LONG_S = 10.0
"""Pairs beyond `LEAST_PAIRS` are taken within this, below an effort's `min_pairs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long a measurement takes."""

    seconds: float = 0.4
    """Aim for the timed part; a slow operator still gets `min_pairs`, fewer (`least_pairs`) where these take long."""
    min_pairs: int = 15
    max_pairs: int = 101
    sample_us: float = 500.0
    """Least length of one timed sample; short operators are called several times in it."""
    min_calls: int = 1
    """Least calls in one timed sample: the vendor's RUN_LOOP."""
    settling_calls: int = 0
    """Calls before each sample that are not timed: they put right what the other side left behind."""
    max_wait_share: float = 0.05
    """A pair during which a thread was kept from running by other programs for more than this share of its
    time is left out; a share of 1e9 leaves none out."""

    def least_pairs(self, pair_s: float) -> int:
        """Return how many pairs are needed where one takes `pair_s` seconds.

        What decides is the length of a call alone, before any is compared, so that the interval means what it says.
        """
        return min(self.min_pairs, max(LEAST_PAIRS, int(LONG_S / pair_s)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one candidate may use."""

    time_s: float = 120.0
    memory_bytes: int = 4 << 30
    """Writable memory of the process beyond what it has at its start and some copies of the work's own tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One comparison: `candidate` against `incumbent`, on the same inputs, interleaved."""

    task: Work
    incumbent: Stack
    candidate: Stack
    num_threads: int
    seed: int = 0
    take: int = 0
    """Counts measurements of one comparison on the same inputs: each has its own order of pairs, and its own answer in
    a job's file."""
    min_gain: float = 0.02
    effort: Effort = field(default_factory=Effort)
    data: str = ""
    """Data file with real weights and inputs (`jumar.tune.graph.capture.data`); empty: random values of the recorded
    scale."""
    error_budget: float | None = None
    """Allowed error, relative to the greatest value of the reference; None: by the dtype."""
    build_only: bool = False
    """Build the candidate and call it once, so that what it compiles is in the compilers' caches; measure nothing."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Trial:
        """Rebuild a trial from `to_json`."""
        known = {
            "task": work_from_json(data["task"]),
            "incumbent": stack_from_json(data["incumbent"]),
            "candidate": stack_from_json(data["candidate"]),
            "effort": Effort(**data["effort"]),
        }
        return cls(**{**data, **known})

    def to_json(self) -> dict[str, Json]:
        """Return the trial as JSON values."""
        return {
            "task": self.task.to_json(),
            "incumbent": stack_to_json(self.incumbent),
            "candidate": stack_to_json(self.candidate),
            "num_threads": self.num_threads,
            "seed": self.seed,
            "take": self.take,
            "min_gain": self.min_gain,
            "effort": asdict(self.effort),
            "data": self.data,
            "error_budget": self.error_budget,
            "build_only": self.build_only,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a trial."""

    status: Status
    detail: str = ""
    """Why it was not measured, in words."""
    is_refusal: bool = False
    """It failed because its engine or provider does not take such work, and said so: nothing broke."""
    phase: Phase = "start"
    gain: Gain | None = None
    worst_error: float | None = None
    """Greatest error of the candidate's outputs, relative to the reference's greatest value."""
    allowed_error: float | None = None
    differs_on: Sequence[str] = ()
    """Kinds of numbers (`NaN`, `Inf`) that make the candidate's outputs differ from PyTorch's in where they are not
    finite, when they are among the inputs. Engines drop a NaN; it is no disagreement, and it is told."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome:
        """Rebuild an outcome from `to_json`."""
        gain = data.get("gain")
        differs_on = tuple(map(str, data.get("differs_on", ())))
        return cls(**{**data, "gain": None if gain is None else Gain.from_json(gain), "differs_on": differs_on})

    def to_json(self) -> dict[str, Json]:
        """Return the outcome as JSON values."""
        known: dict[str, Json] = {
            "status": self.status,
            "detail": self.detail,
            "is_refusal": self.is_refusal,
            "phase": self.phase,
            "gain": None if self.gain is None else self.gain.to_json(),
            "worst_error": self.worst_error,
            "allowed_error": self.allowed_error,
        }
        return known | ({"differs_on": list(self.differs_on)} if self.differs_on else {})


def answer_in(line: str) -> dict[str, Any] | None:
    """Return the answer in a line of a process; None for what a `sitecustomize` printed, before Jumar's code ran."""
    try:
        answer = json.loads(line[line.find("{") :])
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
