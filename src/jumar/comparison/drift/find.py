"""Walks through the histories of two runs step by step: `find_drift`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from jumar.comparison.drift.jumps import JumpWatch
from jumar.comparison.drift.pairing import Array, Pairing, owners_of
from jumar.comparison.drift.rules_seen import RuleWatch
from jumar.comparison.drift.settings import call_changes, other_generators, setting_changes
from jumar.comparison.drift.updates import Choices, Coefficient, Key, coefficients
from jumar.comparison.model.drift import Change, Drift, DriftPoint, Onset
from jumar.recording.history.model import HistoryStep, Place
from jumar.recording.history.reader import History

_ORDER: tuple[Change, ...] = (
    "setting", "calls", "random", "input", "loss", "clipped", "gradient", "state", "parameter", "buffer", "copy",
)  # fmt: skip
MOST_OTHERS = 8


def find_drift(
    reference: History,
    target: History,
    rank: int = 0,
    *,
    offset: int = 0,
    epsilon: float = 0.0,
    steps: tuple[int, int] | None = None,
) -> Drift:
    """Return what two histories say together; step n of the reference is step n + `offset` of the target.

    `steps` are the first and the one after the last that are looked at, None for all.
    `epsilon` is the coarsest that the runs calculate in, 0 for float32. One step of each is in memory at a time.
    """
    of_target = set(target.steps)
    first, end = steps or (0, 1 << 62)
    walk = _Walk(epsilon)
    for step in reference.steps:
        if first <= step < end and step + offset in of_target:
            walk.take(reference.read(step), target.read(step + offset))
    return walk.result(rank, (len(reference.steps), len(target.steps)))


class _Walk:
    """The state of the walk after some steps."""

    def __init__(self, epsilon: float) -> None:
        self._jumps = JumpWatch(epsilon)
        self._rules = RuleWatch()
        self._pairings: dict[tuple[int, int], tuple[Pairing, tuple[Sequence[Place], Sequence[Place]]]] = {}
        self._before: tuple[int, Pairing, Array, Array] | None = None
        self._points: list[DriftPoint] = []
        self._onsets: list[Onset] = []
        self._settings_seen: set[str] = set()
        self._generators: set[str] | None = None
        self._rules_seen: dict[str, Onset] = {}
        self._choices: tuple[Choices, Choices] = {}, {}
        self._inputs: tuple[dict[bytes, int], dict[int, bytes]] = {}, {}

    def take(self, reference: HistoryStep, target: HistoryStep) -> None:
        """Compare one step."""
        owners = owners_of(reference, target)
        for onset in (*setting_changes(reference, target, owners), *call_changes(reference, target, owners)):
            if onset.what not in self._settings_seen:
                self._settings_seen.add(onset.what)
                self._onsets.append(onset)
        self._take_generators(reference, target)
        pairing = self._pairing(reference, target, owners)
        a, b = pairing.values(reference, target)
        distances = pairing.distances(a, b)
        jump = self._jumps.take(reference.step, pairing, a, b, distances)
        if jump is not None:
            self._onsets.append(jump)
        self._take_rules(reference.step, pairing, a, b)
        words = {group.words: distance for group, distance in distances.items()}
        losses = _mean(reference.losses), _mean(target.losses)
        self._points.append(
            DriftPoint(step=reference.step, reference_loss=losses[0], target_loss=losses[1], distances=words)
        )
        self._before = reference.step, pairing, a, b
        inputs = [row for row, place in enumerate(pairing.places) if place.role == "input"]
        if inputs:
            self._inputs[0].setdefault(a[inputs].tobytes(), reference.step)
            self._inputs[1][reference.step] = b[inputs].tobytes()

    def result(self, rank: int, num_steps: tuple[int, int]) -> Drift:
        """Return what was found."""
        onsets = sorted(self._onsets, key=lambda onset: (onset.step, _ORDER.index(onset.change)))
        first = _joined(onsets)
        if first is not None and first.change == "input":
            first = self._with_order(first)
        distances = [point.distances.get("parameters") for point in self._points]
        known = [distance for distance in distances if distance is not None and 0 < distance < math.inf]
        return Drift(
            rank=rank,
            points=self._points,
            num_steps=num_steps,
            onset=first,
            others=[onset for onset in onsets if first is None or onset.what != first.what][:MOST_OTHERS],
            growth=(known[-1] / known[0]) ** (1 / (len(known) - 1)) if len(known) > 2 else None,
            first_distance=known[0] if known else None,
        )

    def _with_order(self, onset: Onset) -> Onset:
        """Say which step of the reference has the inputs that the target read, where one has."""
        read = self._inputs[1].get(onset.step)
        other = self._inputs[0].get(read) if read is not None else None
        if other is None:
            return onset
        sentence = f"the target reads the data that the reference reads in step {other}: another order"
        return replace(onset, sentence=sentence, evidence={**onset.evidence, "as_in_step": other})

    def _take_generators(self, reference: HistoryStep, target: HistoryStep) -> None:
        """Note generators that part while the step before was under way."""
        differ = other_generators(reference, target)
        new = differ - self._generators if self._generators is not None else set()
        if new and self._before is not None:
            names = ", ".join(sorted(new))
            sentence = f"the generator {names} was seeded or drawn from differently"
            onset = Onset(
                step=self._before[0], change="random", what=names, sentence=sentence, evidence={"generators": names}
            )
            self._onsets.append(onset)
        self._generators = (self._generators or set()) | differ

    def _take_rules(self, step: int, pairing: Pairing, a: Array, b: Array) -> None:
        if self._before is None or self._before[1] is not pairing:
            return
        number, _, was_a, was_b = self._before
        fits: tuple[dict[Key, Coefficient], dict[Key, Coefficient]] = (
            coefficients(pairing, a, was_a, self._choices[0]),
            coefficients(pairing, b, was_b, self._choices[1]),
        )
        found = {f"{onset.evidence['rule']} {onset.what}": onset for onset in self._rules.take(step, number, *fits)}
        for key, onset in found.items():
            if key not in self._rules_seen:
                self._onsets.append(onset)
        for key, onset in self._rules_seen.items():
            if key not in found and onset.step == number and onset.change == "state" and "multiplied" in onset.evidence:
                self._onsets[self._onsets.index(onset)] = _once(onset)
        self._rules_seen |= {key: onset for key, onset in found.items() if key not in self._rules_seen}

    def _pairing(self, reference: HistoryStep, target: HistoryStep, owners: dict[str, str]) -> Pairing:
        key = id(reference.places), id(target.places)
        if key not in self._pairings:
            pairing = Pairing(reference.places, target.places, owners)
            self._pairings[key] = pairing, (reference.places, target.places)
        return self._pairings[key][0]


def _joined(onsets: Sequence[Onset]) -> Onset | None:
    """Return the first onset that moved a number; a generator's state alone moves none.

    What a rule that is followed says is worth more than the distance that it causes in the same step.
    """
    moved = [onset for onset in onsets if onset.change != "random"]
    if not moved:
        return None
    first = moved[0]
    at = [onset for onset in moved if onset.step == first.step]
    told = next((onset for onset in at if "rule" in onset.evidence and onset.change == first.change), first)
    drawn = next((one for one in onsets if one.change == "random" and one.step in {told.step, told.step - 1}), None)
    if drawn is not None and told.change in {"input", "gradient", "loss", "buffer"}:
        return replace(
            told, sentence=f"{told.sentence}; {drawn.sentence}", evidence={**told.evidence, **drawn.evidence}
        )
    return told


def _once(onset: Onset) -> Onset:
    """Return the onset of a state that was changed once, and keeps to its rule afterwards."""
    times, side = float(onset.evidence["multiplied"]), onset.evidence["side"]
    sentence = f"{onset.what} was multiplied by {times:.6g} in the {side} before the update of step {onset.step}"
    return replace(onset, sentence=sentence)


def _mean(losses: Iterable[float]) -> float | None:
    values = list(losses)
    return sum(values) / len(values) if values else None
