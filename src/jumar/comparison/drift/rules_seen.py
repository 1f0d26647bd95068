"""Compares the rules that two runs follow by their own numbers: `RuleWatch`."""

from __future__ import annotations

from jumar.comparison.drift.updates import Coefficient, Key
from jumar.comparison.model.drift import Change, Onset

DEVIATIONS = 8.0
"""Standard deviations from which two coefficients differ."""
LEAST = {"keep": 1e-4, "add": 5e-3, "share": 0.03, "rate": 5e-4}
"""Relative differences that are not taken for one, whatever the fit says."""
OF_ROLE: dict[str, Change] = {"keep": "state", "add": "state", "share": "copy", "rate": "parameter"}


class RuleWatch:
    """Is shown the coefficients of both runs step by step."""

    def __init__(self) -> None:
        self._usual: tuple[dict[Key, float], dict[Key, float]] = {}, {}

    def take(
        self, step: int, before: int, reference: dict[Key, Coefficient], target: dict[Key, Coefficient]
    ) -> list[Onset]:
        """Return where the runs follow other rules from the step `before` to `step`."""
        found = []
        for key in reference.keys() & target.keys():
            a, b = reference[key], target[key]
            if differ(key, a, b):
                found.append(self._onset(step, before, key, a, b))
            else:
                for usual, one in zip(self._usual, (a, b), strict=True):
                    usual[key] = one.value
        order = list(LEAST)
        return sorted(found, key=lambda onset: order.index(str(onset.evidence["rule"])))

    def _onset(self, step: int, before: int, key: Key, a: Coefficient, b: Coefficient) -> Onset:
        rule, owner, slot = key
        figures = f"{_short(a.value, b.value)} in the reference and {_short(b.value, a.value)} in the target"
        what = {"share": f"the averaged copy of {owner}", "rate": f"the parameters of {owner}"}.get(
            rule, f"{slot} of {owner}"
        )
        if rule == "keep":
            sentence = f"{what} keeps {figures} of itself from step {before} to step {step}"
        elif rule == "add":
            sentence = f"{what} takes up {figures} of the gradient"
        elif rule == "share":
            sentence = f"{what} moves towards the parameters by {figures}: another decay"
        else:
            sentence = f"{what} move {b.value / a.value:.5g} times as far for the same state of the optimizer"
        evidence: dict[str, str | float] = {"rule": rule, "reference": a.value, "target": b.value}
        for side, usual, one in (("reference", self._usual[0], a), ("target", self._usual[1], b)):
            if rule in {"keep"} and key in usual and differ(key, Coefficient(usual[key], 0.0), one):
                evidence["multiplied"] = one.value / usual[key]
                evidence["side"] = side
        at = before if slot == "before" else step
        return Onset(step=at, change=OF_ROLE[rule], what=what, sentence=sentence, evidence=evidence)


def differ(key: Key, a: Coefficient, b: Coefficient) -> bool:
    """Tell whether two coefficients differ by more than the fits are off."""
    apart = abs(a.value - b.value)
    size = max(abs(a.value), abs(b.value))
    return apart > DEVIATIONS * (a.deviation + b.deviation) and apart > LEAST[key[0]] * size


def _short(value: float, other: float) -> str:
    """Return a number with as many digits as tell it from the other."""
    for digits in range(3, 9):
        if f"{value:.{digits}g}" != f"{other:.{digits}g}":
            return f"{value:.{min(digits + 1, 9)}g}"
    return f"{value:.9g}"
