"""Compares the settings of the optimizers, and the generators, of two steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jumar.comparison.model.drift import Onset
from jumar.recording.history.model import HistoryStep

HOW_IT_IS_COMPUTED = frozenset({"foreach", "fused", "capturable", "differentiable", "initial_lr", "maximize_grads"})
"""Settings that choose a kernel, or that no update reads."""
EQUAL = 1e-9
"""Relative difference of two numbers that were calculated in another order (a schedule)."""


def setting_changes(reference: HistoryStep, target: HistoryStep, owners: Mapping[str, str]) -> Iterator[Onset]:
    """Yield the settings that differ in this step; those that one side's class does not have are left out."""
    of_target = {owners.get(name, name): values for name, values in target.settings.items()}
    for owner, values in reference.settings.items():
        other = of_target.get(owner, {})
        for name in values:
            if name in other and name not in HOW_IT_IS_COMPUTED:
                yield from _of_setting(reference.step, owner, name, values[name], other[name])
    for owner in of_target.keys() ^ reference.settings.keys():
        side = "reference" if owner in reference.settings else "target"
        if not (side == "target" and owner in owners):
            yield _only_one(reference.step, owner, side)


def _of_setting(step: int, owner: str, name: str, a: Any, b: Any) -> Iterator[Onset]:
    if not (isinstance(a, list) and isinstance(b, list)):
        return
    if len(a) != len(b):
        yield _onset(step, f"{owner}: {name}", f"{owner} has {len(a)} of {name} against {len(b)}", str(a), str(b))
        return
    differ = [group for group in range(len(a)) if not _alike(a[group], b[group])]
    if not differ:
        return
    group = differ[0]
    where = f"{name} of group {group}" if len(a) > 1 and len(differ) < len(a) else name
    ratio = f" ({b[group] / a[group]:.6g} times)" if _is_number(a[group]) and _is_number(b[group]) and a[group] else ""
    sentence = f"{owner} has another {where}: {_shown(a[group])} against {_shown(b[group])}{ratio}"
    yield _onset(step, f"{owner}: {name} {differ if len(a) > 1 else ''}", sentence, str(a[group]), str(b[group]))


def _only_one(step: int, owner: str, side: str) -> Onset:
    return _onset(
        step, owner, f"only the {side} uses {owner}", owner * (side == "reference"), owner * (side == "target")
    )


def _onset(step: int, what: str, sentence: str, reference: str, target: str) -> Onset:
    evidence = {"reference": reference, "target": target}
    return Onset(step=step, change="setting", what=what.strip(), sentence=sentence, evidence=evidence)


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_alike, a, b))
    if _is_number(a) and _is_number(b):
        return bool(a == b or abs(a - b) <= EQUAL * max(abs(a), abs(b)))
    return bool(a == b) or str(a).startswith("tensor on") or str(b).startswith("tensor on")


def _shown(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def call_changes(reference: HistoryStep, target: HistoryStep, owners: Mapping[str, str]) -> Iterator[Onset]:
    """Yield the optimizers that stepped another number of times."""
    of_target = {owners.get(name, name): number for name, number in target.calls.items()}
    for owner, number in reference.calls.items():
        other = of_target.get(owner, number)
        if other != number:
            sentence = f"{owner} made {number} updates in this step against {other}"
            evidence: dict[str, str | float] = {"reference": number, "target": other}
            yield Onset(
                step=reference.step, change="calls", what=f"{owner}: updates", sentence=sentence, evidence=evidence
            )


def other_generators(reference: HistoryStep, target: HistoryStep) -> set[str]:
    """Return the generators whose states differ when the step begins."""
    common = reference.rng.keys() & target.rng.keys()
    return {name for name in common if reference.rng[name] != target.rng[name]}
