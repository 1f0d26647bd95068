"""Which operator inside a module parts first, where the two runs' operators are of two frameworks: `first_inside`.

Operators are paired by what they calculate: `ms::MatMul` or `tf::MatMul` with `aten::mm`. What another
framework does in two calls and PyTorch in one (a product, then its bias) counts as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from jumar.comparison.measure.distances import measure
from jumar.comparison.model.kinds import QUERIES, TRANSPORT
from jumar.comparison.model.results import OperatorDiff
from jumar.operators import canonical_name
from jumar.recording.schema import CallRow

SAME = 1e-4
"""Relative difference up to which results of one calculation agree."""
_MEANINGS = {"addmm": "mm", "baddbmm": "mm", "bmm": "mm", "linear": "mm", "clone": "", "rsub": "sub"}
"""Further names of one calculation; empty for none."""
_ADDS_BIAS = frozenset({"ms::BiasAdd", "tf::BiasAdd", "tf::BiasAddV1"})
_BIASED = frozenset({"mm", "convolution"})
_SILENT = TRANSPORT | QUERIES | {"ones", "zeros", "full", "empty", "arange"}


@dataclass(frozen=True, slots=True)
class _Step:
    """A calculation of a module."""

    meaning: str
    row: CallRow


def first_inside(first: OperatorDiff, reference: Sequence[CallRow], target: Sequence[CallRow]) -> str:
    """Return in words which calculation of the module of `first` differs first; empty where none is found.

    Only calls of the module itself are looked at, not those of modules in it: these agree, or would have been first.
    A calculation that one side makes alone is named where nothing after it agrees.
    """
    sides = []
    for rows, seq in ((reference, first.reference_seq), (target, first.target_seq)):
        module = next((row for row in rows if row.seq == seq and row.kind == "module"), None)
        if module is None or module.phase != "forward":
            return ""
        sides.append(_steps(rows, module))
    one, other = sides
    matcher = SequenceMatcher(None, [step.meaning for step in one], [step.meaning for step in other], autojunk=False)
    alone = ""
    for tag, i, i_end, k, k_end in matcher.get_opcodes():
        if tag != "equal":
            alone = alone or _alone(one[i:i_end], other[k:k_end])
            continue
        for step, partner in zip(one[i:i_end], other[k:k_end], strict=True):
            differs = _difference(step, partner)
            if differs is None:
                continue
            if differs:
                return alone or f"inside it {_words(step)} and {_words(partner)} {differs}"
            alone = ""  # what one side made alone before changes nothing
    return alone


def _difference(step: _Step, partner: _Step) -> str | None:
    """Return how two results differ, empty where they agree, None where that is not known."""
    first, second = step.row.outputs[0], partner.row.outputs[0]
    if math.prod(first.shape) != math.prod(second.shape):
        return "give other shapes"
    found = measure(first, second)
    if not found.known:
        return None
    error = found.error()
    return f"are the first that differ, by {error:.3g}" if error > SAME else ""


def _steps(rows: Sequence[CallRow], module: CallRow) -> list[_Step]:
    place = (module.module_path, module.module_type, "forward")
    found: list[_Step] = []
    for row in rows:
        if row.kind != "op" or (row.module_path, row.module_type, row.phase) != place or not row.outputs:
            continue
        name = canonical_name(row.name)
        if row.name in _ADDS_BIAS and found and found[-1].meaning in _BIASED:
            found[-1] = replace(found[-1], row=replace(row, name=found[-1].row.name))
            continue
        meaning = _MEANINGS.get(name, name)
        if meaning and name not in _SILENT:
            found.append(_Step(meaning, row))
    return found


def _alone(one: Sequence[_Step], other: Sequence[_Step]) -> str:
    """Return which calculations only one side makes, up to where the sides go on alike."""
    parts = [
        f"only the {side} calls {_words(steps[0])}" for side, steps in (("reference", one), ("target", other)) if steps
    ]
    return f"inside it {' and '.join(parts)}" if parts else ""


def _words(step: _Step) -> str:
    return step.row.name + (f" ({step.row.source})" if step.row.source else "")
