"""`ask`: the step's time if something were otherwise, with what that assumes and how well the replay fits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from jumar.advise.timing.profile import Profile
from jumar.advise.timing.thresholds import Thresholds
from jumar.advise.whatif.replay import Change, replay, unchanged
from jumar.advise.whatif.scenarios import question
from jumar.base.errors import InputError
from jumar.timeline.model.events import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The mean of the judged steps, in milliseconds."""

    question: str
    step_ms: float
    """As it was measured."""
    replayed_ms: float
    """As the replay of the unchanged run has it: what it is off by is the model's error."""
    new_step_ms: float
    """Of the replay with the change, scaled by what the replay of the unchanged run is off by."""
    num_steps: int
    assumes: str

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def ask(timeline: Timeline, text: str) -> Answer:
    """Return what the steps would take if `text` held. Raises UsageError for a question that cannot be answered."""
    profile = Profile(timeline=timeline, thresholds=Thresholds.load())
    if not profile.judged:
        raise InputError(f"{timeline.source} must hold an event; it has none.")
    asked = question(text, profile)
    before, after = _mean_ns(profile, unchanged(timeline)), _mean_ns(profile, asked.change)
    measured = profile.time.total_ns / len(profile.judged)
    return Answer(
        question=text,
        step_ms=measured / 1e6,
        replayed_ms=before / 1e6,
        new_step_ms=measured * after / before / 1e6 if before else 0.0,
        num_steps=len(profile.judged),
        assumes=asked.assumes,
    )


def _mean_ns(profile: Profile, change: Change) -> float:
    """Return the mean of the judged steps, replayed as one stretch: a device may fall behind over several steps."""
    steps = profile.judged
    return replay(profile.timeline, steps[0].start_ns, steps[-1].end_ns, change) / len(steps)
