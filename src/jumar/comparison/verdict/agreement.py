"""Decides whether two runs agree: `shortfalls` names what stands against it.

Runs agree when what was compared agrees and nothing stands against it. A call or a parameter that only one side has,
other arguments, other shapes, a gradient or a loss beyond its tolerance, a step or a rank that one run did not make:
each of them is a difference, whatever the values are that could be compared. Calls that devices and versions insert or
replace are not (`jumar.comparison.align.explained`, regions). Text, page, JSON and exit code take their answer from
here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from jumar.base.text import counted, listing
from jumar.comparison.model.calls import Call
from jumar.comparison.model.correspondence import LayerDiff, Shortfall
from jumar.comparison.model.held import are_of_one_tool
from jumar.comparison.model.kinds import TRANSPORT
from jumar.comparison.model.results import ArgumentDiff, OperatorDiff
from jumar.comparison.model.words import number, place
from jumar.comparison.walk.evidence import Evidenced
from jumar.operators import canonical_name

SAME_NUMBER = 1e-5
"""Relative difference up to which two numeric arguments are one, computed with other rounding."""

FEW = 0.5
"""Share of the pairs of calls without a value from which the values say too little."""

LEAST_MASK = -1e4
"""From here down a number stands for minus infinity: float16 ends at -65504."""

SHOWN = 3


def shortfalls(found: Evidenced) -> list[Shortfall]:
    """Return what stands against an agreement though no value diverges, the most telling first."""
    if found.correspondence.ranks_only:
        return []
    return [replace(one, sentence=_capital(one.sentence)) for one in _shortfalls(found)]


def _hidden_settings(found: Evidenced) -> list[LayerDiff]:
    """Return the layers' settings that differ and need not show in results."""
    if not found.correspondence.layers:
        return []
    from jumar.comparison.model.frameworks.layers import SHOWN_BY_VALUES

    return [diff for diff in found.correspondence.layers if diff.name not in SHOWN_BY_VALUES]


def _capital(sentence: str) -> str:
    """Return the sentence with a capital letter, unless it begins with the name of an operator."""
    return sentence if "::" in sentence.split(" ", 1)[0] else sentence[:1].upper() + sentence[1:]


def _shortfalls(found: Evidenced) -> Iterator[Shortfall]:
    tally = found.tally
    for side, calls in zip(("reference", "target"), tally.extra, strict=True):
        if calls:
            yield Shortfall(kind="calls", sentence=only(side, calls, runs=tally.has_inputs))
    if tally.other_inputs:
        diff, tensor = tally.other_inputs[0]
        yield Shortfall(
            kind="inputs",
            sentence=f"{tensor.name} of {diff.name} in {place(diff)} differs by {number(tensor.error)}, and no call "
            "before it does: other data, or a call that the dumps do not hold",
        )
    yield from _of_arguments(found)
    if settings := other_settings(found):
        yield Shortfall(kind="settings", sentence=f"the optimizers have other settings ({', '.join(settings[:SHOWN])})")
    if layers := _hidden_settings(found):
        yield Shortfall(kind="layers", sentence=f"layers have other settings: {listing(map(str, layers), SHOWN)}")
    if tally.num_updates[0] != tally.num_updates[1] and not found.skipped and not _other_micro_steps(found):
        counts = " and ".join(
            f"{num:,} in the {side}" for side, num in zip(("reference", "target"), tally.num_updates, strict=True)
        )
        yield Shortfall(kind="updates", sentence=f"the compared steps hold another number of optimizer steps: {counts}")
    if tally.other_shapes:
        yield Shortfall(kind="shapes", sentence=_of_shapes(tally.other_shapes[0], tally.num_other_shapes))
    if tally.unseen_regions:
        first = tally.unseen_regions[0]
        what = counted(len(tally.unseen_regions), "calculation")
        yield Shortfall(
            kind="values",
            sentence=f"{what} made with other operators could not be compared, first {first.name} in {place(first)}",
        )
    if tally.num_blind > FEW * tally.num_pairs and not tally.num_budgeted:
        yield Shortfall(
            kind="values",
            sentence=f"{tally.num_blind:,} of {tally.num_pairs:,} pairs of calls hold no values that could be compared",
        )
    if tally.unjudged:
        names = [".".join(filter(None, (diff.module_path, diff.reference_name))) for diff in tally.unjudged]
        noun = "parameters differ" if len(set(names)) > 1 else "parameter differs"
        yield Shortfall(
            kind="values",
            sentence=f"{len(set(names)):,} {noun} after an update whose learning rate is not recorded "
            f"({listing(list(dict.fromkeys(names)), SHOWN)})",
        )
    for sentence in found.absent:
        yield Shortfall(kind="steps", sentence=sentence)


def only(side: str, calls: Sequence[Call], *, runs: bool) -> str:
    """Return `only the reference runs aten::lerp_.Scalar ×58 (ema.py:12)`; `runs` is False for tensors of a file."""
    parameters = [call for call in calls if call.row.kind == "parameter"]
    operators = [call for call in calls if call.row.kind != "parameter"]
    said = []
    if parameters or not runs:
        names = list(dict.fromkeys(_tensor_name(call) for call in (parameters if runs else calls)))
        noun = "parameter" if parameters or _are_parameters(calls) else "tensor"
        said.append(f"only the {side} has the {noun}{'s' if len(names) > 1 else ''} {listing(names, SHOWN)}")
    if operators and runs:
        counts = Counter(call.row.name for call in operators)
        names = [name if times == 1 else f"{name} ×{times}" for name, times in counts.most_common()]
        source = next((call.row.source for call in operators if call.row.source), "")
        where = ", ".join(filter(None, (operators[0].path or "the main program", source)))
        said.append(f"only the {side} runs {listing(names, SHOWN)} (first in {where})")
    return "; ".join(said)


def _are_parameters(calls: Iterable[Call]) -> bool:
    return all(call.row.name.startswith("parameter::") for call in calls)


def _tensor_name(call: Call) -> str:
    return ".".join(filter(None, (call.path, call.row.name.removeprefix("parameter::"))))


def _of_arguments(found: Evidenced) -> Iterator[Shortfall]:
    diffs = [diff for diff in found.operators.judged() if decisive_arguments(found, diff)]
    if diffs:
        first = diffs[0]
        more = f", and {counted(len(diffs) - 1, 'more call')} with other arguments" if len(diffs) > 1 else ""
        words = ", ".join(map(str, decisive_arguments(found, first)))
        yield Shortfall(kind="arguments", sentence=f"{first.name} in {place(first)} is called with {words}{more}")


def decisive_arguments(found: Evidenced, diff: OperatorDiff) -> list[ArgumentDiff]:
    """Return the arguments with which the sides call an operator differently.

    Numbers that differ by rounding are one. Arguments of two variants of an operator are not compared, and of those
    that one side leaves at its default only where both run the same overload, and where no dump may just not hold it.
    The sizes of a view, or of its gradient, say nothing where it is a view of tensors of other sizes.
    """
    if not diff.arguments or _is_view_of_other_sizes(diff):
        return []
    same = diff.reference_name == diff.target_name and are_of_one_tool(found.reference.info, found.target.info)
    return [a for a in diff.arguments if (a.given or same) and not _is_same_number(a.reference, a.target)]


def _is_view_of_other_sizes(diff: OperatorDiff) -> bool:
    tensors = (*diff.inputs, *diff.outputs)
    is_other = any(tensor.shape != tensor.target_shape for tensor in tensors)
    return is_other and canonical_name(diff.reference_name) in TRANSPORT


def _is_same_number(first: object, second: object) -> bool:
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return all(map(_is_same_number, first, second))
    if not _is_number(first) or not _is_number(second) or (isinstance(first, int) and isinstance(second, int)):
        return first == second
    one, other = _masking(first), _masking(second)
    return one == other or abs(one - other) <= SAME_NUMBER * min(abs(one), abs(other))


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _masking(value: int | float) -> float:
    """Return the number; minus infinity for any that masks in its stead (the least number of a type, -1e9)."""
    return -math.inf if value <= LEAST_MASK else float(value)


def other_settings(found: Evidenced) -> list[str]:
    """Return the settings in which the optimizers differ. Another class with equal settings is another implementation,
    whose parameters are compared."""
    return [str(diff) for diff in found.correspondence.hyperparameters if diff.name != "class"]


def _other_micro_steps(found: Evidenced) -> bool:
    return any(shift.kind == "micro-steps" for shift in found.correspondence.shifts)


def _of_shapes(diff: OperatorDiff, num: int) -> str:
    tensor = next((t for t in diff.outputs if t.shape != t.target_shape), None)
    shapes = f" ({list(tensor.shape)} against {list(tensor.target_shape)})" if tensor is not None else ""
    return f"{counted(num, 'pair')} of calls return tensors of other shapes, first {diff.name} in {place(diff)}{shapes}"
