"""The module tree, coloured by the greatest difference in each module."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from jumar.accuracy import Comparison, OperatorDiff
from jumar.report.page import Block, Section
from jumar.report.pictures import Outline, OutlineEntry

ROOT = "(root)"
PHASES = ("forward", "backward")


@dataclass(slots=True)
class _Module:
    """What the operators of one module came to."""

    error: float | None = None
    statuses: Counter[str] = field(default_factory=Counter)
    marked: bool = False


def modules(comparison: Comparison) -> Section | None:
    """Return one tree a phase in which anything differs."""
    blocks: list[Block] = []
    for phase in PHASES:
        found = _by_module(comparison, phase)
        if any(module.error for module in found.values()):
            entries = [_entry(path, module) for path, module in found.items()]
            blocks.append(Outline(title=f"Greatest error by module, {phase}", unit="relative error", entries=entries))
    return Section(title="Error by module", blocks=blocks, collapsed=comparison.status == "agree") if blocks else None


def _by_module(comparison: Comparison, phase: str) -> dict[str, _Module]:
    found: dict[str, _Module] = {}
    first = comparison.first_divergence
    for diff in _of_phase(comparison.operators, phase):
        module = found.setdefault(diff.module_path or ROOT, _Module())
        module.statuses[diff.status] += 1
        module.marked |= diff is first or (first is not None and _same(diff, first))
        if diff.error is not None and diff.status != "not-compared":
            module.error = max(module.error or 0.0, diff.error, key=lambda e: math.inf if math.isnan(e) else e)
    return found


def _of_phase(operators: Sequence[OperatorDiff], phase: str) -> list[OperatorDiff]:
    return [diff for diff in operators if diff.phase == phase and diff.kind in ("op", "module")]


def _same(one: OperatorDiff, other: OperatorDiff) -> bool:
    return (one.step, one.rank, one.reference_seq, one.target_seq) == (
        other.step,
        other.rank,
        other.reference_seq,
        other.target_seq,
    )


def _entry(path: str, module: _Module) -> OutlineEntry:
    parts = [f"{module.statuses[status]} {status}" for status in ("diverge", "random") if module.statuses[status]]
    words = "the runs part here" if module.marked else ", ".join(parts)
    return OutlineEntry(name=path, value=module.error, note=words, marked=module.marked)
