"""Tells a change from the growth of rounding: `JumpWatch`.

Training amplifies rounding, by a factor a step that differs from model to model. A change shows as a distance that is
many times what the steps before, and the growth seen so far, lead to expect. Where two runs were the same bits, any
difference that is greater than rounding is one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

import numpy as np

from jumar.comparison.drift.pairing import Array, Group, Pairing, Rows
from jumar.comparison.model.drift import Change, Onset

ROUNDING = 1e-5
"""Relative distance up to which a difference may be rounding, in float32 (sums of many terms)."""
COARSE = 4.0
"""The same in epsilons of a half type that the runs calculate in."""
JUMP = 30.0
"""Times the distance of the steps before. Healthy pairs were seen to grow by 2 to 5 a step."""
MARGIN = 8.0
"""Times the greatest growth seen so far."""
SETTLED = 4
"""Steps from the first one on that set the scale: the first updates of an adaptive optimizer turn noise into signs."""
WINDOW = 5
PLURAL = {"input", "gradient", "parameter", "buffer"}
NO_ONSET = {"loss", "scale", "clipped"}
"""Single numbers, which may come close by chance. What moves them shows elsewhere in the same step."""


class JumpWatch:
    """Is shown the distances step by step. `epsilon` is the coarsest that the runs calculate in."""

    def __init__(self, epsilon: float) -> None:
        self._floor = max(ROUNDING, COARSE * epsilon if epsilon > 1e-6 else 0.0)
        self._recent: dict[Group, deque[float]] = {}
        self._growth = 1.0
        self._num_steps = 0

    def take(self, step: int, pairing: Pairing, a: Array, b: Array, distances: Mapping[Group, float]) -> Onset | None:
        """Return the first group, in the order of a training step, that is suddenly apart; None where none is."""
        same_bits = self._num_steps > 0 and not any(any(recent) for recent in self._recent.values())
        found = None
        settled = same_bits or self._num_steps >= SETTLED
        for group, distance in distances.items():
            recent = self._recent.get(group)
            if found is None and settled and recent and group.role not in NO_ONSET and distance > self._allowed(recent):
                found = _onset(step, pairing, group, distance, max(recent), a, b)
        self._remember(distances)
        return found

    def _allowed(self, recent: deque[float]) -> float:
        return max(self._floor, max(JUMP, MARGIN * self._growth) * max(recent))

    def _remember(self, distances: Mapping[Group, float]) -> None:
        self._num_steps += 1
        for group, distance in distances.items():
            recent = self._recent.setdefault(group, deque(maxlen=WINDOW))
            most = max(recent, default=0.0)
            if self._num_steps > SETTLED and 0 < most < distance < math.inf and group.role not in NO_ONSET:
                self._growth = max(self._growth, distance / most)
            recent.append(distance)


def _onset(step: int, pairing: Pairing, group: Group, distance: float, before: float, a: Array, b: Array) -> Onset:
    rows = pairing.groups[group]
    known = f"{before:.2g} at most in the steps before" if before else "equal bits before"
    which, evidence = _which(pairing, rows, a, b)
    evidence |= {"distance": distance, "before": before}
    change: Change = group.role if group.role not in {"scale"} else "gradient"  # type: ignore[assignment]
    said = "the runs read other data: " if group.role == "input" else ""
    sentence = f"{said}{group.words}{which} {'are' if group.role in PLURAL else 'is'} {distance:.2g} apart ({known})"
    return Onset(step=step, change=change, what=group.words, sentence=sentence, evidence=evidence)


def _which(pairing: Pairing, rows: Rows, a: Array, b: Array) -> tuple[str, dict[str, str | float]]:
    """Return whether all of a group differ by one factor, and else which of them differ."""
    with np.errstate(all="ignore"):
        apart = np.abs(b[rows, 0] - a[rows, 0]) + np.abs(b[rows, 1:] - a[rows, 1:]).max(axis=1)
        scale = np.abs(a[rows, 0])
        good = (scale > 0) & np.isfinite(apart)
        ratios = (b[rows, 0] / a[rows, 0])[good]
        differ = apart > 1e-4 * np.where(scale > 0, scale, 1.0)
    if len(ratios) > 1:
        middle = float(np.median(ratios))
        common = np.abs(ratios / middle - 1) < 1e-3 if middle else np.zeros(1, bool)
        if abs(middle - 1) > 1e-3 and float(np.mean(common)) > 0.9:
            return f", all {middle:.4g} times the reference's,", {"ratio": middle}
    names = [pairing.places[row].name for row, is_apart in zip(rows.tolist(), differ, strict=True) if is_apart]
    if not names or len(names) == len(rows):
        return "", {}
    more = f" and {len(names) - 1} more of {len(rows)}" if len(names) > 1 else f" alone of {len(rows)}"
    return f" ({names[0]}{more})", {"first": names[0], "differ": float(len(names))}
