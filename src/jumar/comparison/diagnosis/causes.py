"""Makes hypotheses about the first divergence, from its whole tensors or from what its rows keep."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from jumar.comparison.diagnosis.results import Suspicion
from jumar.comparison.diagnosis.rows import Both, home, named
from jumar.comparison.diagnosis.signatures import Context, Hypothesis, hypotheses, hypotheses_from_rows
from jumar.comparison.measure.tolerance import epsilon
from jumar.comparison.model.calls import DEFAULT
from jumar.comparison.model.results import ArgumentDiff, OperatorDiff
from jumar.operators import has
from jumar.recording.schema import CallRow, TensorRow

MOST = 4
ILL_CONDITIONED = 1e-3
"""A gradient smaller than this share of its input is a remainder of terms that cancel."""

CONSEQUENCES = ("scale", "sign", "offset", "saturation")
"""What arguments that differ (a factor, an exponent, a bound) make of the numbers."""

Tensors = dict[str, Any]
Seen = Literal["tensors", "sketches", "statistics", "arguments"]


def suspicions(both: Both, diff: OperatorDiff) -> tuple[Suspicion, ...]:
    """Return hypotheses about the outputs of a call, the best first; arguments that differ before all."""
    reference, target = both.pair(diff)
    found: list[tuple[Hypothesis, str, Seen]] = []
    if diff.arguments:
        found.append((_of_arguments(diff.arguments), "", "arguments"))
    if reference is None or target is None:
        found += _of_one_side(both, reference, target)
    else:
        found += [one for one in _of_tensors(both, diff, reference, target) if not _is_consequence(one, diff)]
        found += _of_conditioning(reference, diff)
    arises_before = diff.kind == "op" and diff.note  # not in the call itself: the runs may not run the same
    if arises_before and (branches := other_branches(both, diff.step, diff.rank)) is not None:
        found.append((branches, "", "statistics"))
    found.sort(key=lambda one: -one[0].score)
    return tuple(
        Suspicion(
            hypothesis=hypothesis,
            operator=diff.name,
            tensor=tensor,
            module_path=diff.module_path,
            phase=diff.phase,
            step=diff.step,
            rank=diff.rank,
            source=diff.source,
            seen_in=seen,
        )
        for hypothesis, tensor, seen in _distinct(found)[:MOST]
    )


def _is_consequence(found: tuple[Hypothesis, str, Seen], diff: OperatorDiff) -> bool:
    """Tell whether a guess from statistics says no more than that other arguments give other numbers."""
    hypothesis, _, seen = found
    return bool(diff.arguments) and seen != "tensors" and hypothesis.kind in CONSEQUENCES


def _of_one_side(both: Both, reference: CallRow | None, target: CallRow | None) -> list[tuple[Hypothesis, str, Seen]]:
    """Return hypotheses about an operator that only one run has: what it changes in the input that the other run goes
    on with."""
    row, of_target = (target, True) if target is not None else (reference, False)
    if row is None or not row.outputs:
        return []
    tensors = both.tensors(row, of_target=of_target)
    output = row.outputs[0]
    read = next((tensor for tensor in row.inputs if tensor.shape == output.shape), None)
    if read is None:
        return []
    before, after = tensors.get(read.name), tensors.get(output.name)
    if before is not None and after is not None:
        seen: Seen = "tensors"
        found = hypotheses(before, after, Context(dtype=output.dtype))
    else:
        seen = "sketches" if read.sketch is not None and output.sketch is not None else "statistics"
        found = hypotheses_from_rows(read, output, Context(dtype=output.dtype))
    side = "target" if of_target else "reference"
    return [
        (replace(one, statement=f"Only the {side} runs this: {_of_result(one.statement)}"), output.name, seen)
        for one in found
    ]


def _of_result(statement: str) -> str:
    """Return a sentence about target and reference as one about an operator's result and its input."""
    said = statement.replace("The target", "its result").replace("the target", "its result")
    return said.replace("the reference", "its input")


def _distinct(found: list[tuple[Hypothesis, str, Seen]]) -> list[tuple[Hypothesis, str, Seen]]:
    """Keep the first hypothesis of each kind, because several outputs of one call show the same cause."""
    kinds: set[str] = set()
    kept = []
    for one in found:
        if one[0].kind not in kinds:
            kinds.add(one[0].kind)
            kept.append(one)
    return kept


def _of_arguments(arguments: tuple[ArgumentDiff, ...]) -> Hypothesis:
    listed = ", ".join(map(str, arguments))
    return Hypothesis(
        kind="arguments",
        statement=f"The two sides call the operator with different arguments: {listed}.",
        confirm="Make them equal and compare again.",
        score=1.0
        if all(argument.given or DEFAULT in (argument.reference, argument.target) for argument in arguments)
        else 0.9,
        evidence={argument.name: [str(argument.reference), str(argument.target)] for argument in arguments},
    )


def _of_tensors(
    both: Both, diff: OperatorDiff, reference: CallRow, target: CallRow
) -> list[tuple[Hypothesis, str, Seen]]:
    first, second = both.tensors(reference, of_target=False), both.tensors(target, of_target=True)
    found: list[tuple[Hypothesis, str, Seen]] = []
    for name, a, b in _pairs(diff, reference, target):
        context = _context(both, diff, reference, target, name, first)
        mine_array, theirs_array = first.get(name), second.get(name)
        if mine_array is not None and theirs_array is not None and mine_array.shape == theirs_array.shape:
            found += [(one, name, "tensors") for one in hypotheses(mine_array, theirs_array, context)]
        else:
            seen: Seen = "sketches" if a.sketch is not None and b.sketch is not None else "statistics"
            found += [(one, name, seen) for one in hypotheses_from_rows(a, b, context)]
    return found


def _pairs(diff: OperatorDiff, reference: CallRow, target: CallRow) -> Iterator[tuple[str, TensorRow, TensorRow]]:
    """Yield the tensors that differ; of a parameter its gradient too."""
    first, second = (named((*row.outputs, *row.inputs)) for row in (reference, target))
    names = [tensor.name for tensor in diff.outputs] or [name for name in first if not name.startswith("input")]
    for name in names:
        if name in first and name in second:
            yield name, first[name], second[name]


def _context(
    both: Both, diff: OperatorDiff, reference: CallRow, target: CallRow, name: str, tensors: Tensors
) -> Context:
    a, b = named((*reference.outputs, *reference.inputs))[name], named((*target.outputs, *target.inputs))[name]
    dims = dict.fromkeys(size for tensor in reference.inputs for size in tensor.shape)
    return Context(
        operator=reference.name,
        dtype=max(a.dtype, b.dtype, key=epsilon),
        rounding=diff.tolerance,
        num_ranks=both.target.info.num_ranks,
        dims=tuple(dims),
        numbers=_numbers(both, diff),
        inputs=tuple(array for key, array in tensors.items() if key.startswith("input")),
        previous_reference=_previous(both, reference, name, of_target=False),
        previous_target=_previous(both, target, name, of_target=True),
    )


def _numbers(both: Both, diff: OperatorDiff) -> dict[str, float]:
    """Return numbers of the run that a ratio may be made of."""
    numbers = {}
    for of_target, side in ((False, "reference's"), (True, "target's")):
        scale = both.step_info(diff.step, diff.rank, of_target=of_target).loss_scale
        if scale and scale != 1:
            numbers[f"the {side} loss scale, {scale:g}"] = scale
    return numbers


def _previous(both: Both, row: CallRow, name: str, *, of_target: bool) -> Any | None:
    """Return the same tensor one step earlier, where both steps hold it."""
    recording = both.target if of_target else both.reference
    if not recording.has_tensors() or row.step - 1 not in recording.steps(row.rank):
        return None
    rows = both.rows(row.step - 1, row.rank, of_target=of_target)
    earlier = next((one for one in rows if home(one) == home(row)), None)
    return both.tensors(earlier, of_target=of_target).get(name)


def _of_conditioning(row: CallRow, diff: OperatorDiff) -> list[tuple[Hypothesis, str, Seen]]:
    """Return a hypothesis for gradients that are small remainders of terms that cancel."""
    if diff.phase != "backward" or not has(row.name, "normalization"):
        return []
    coming = next((t.l2 for t in row.inputs if t.l2 and math.isfinite(t.l2)), None)
    going = next((t for t in row.outputs if t.l2 is not None), None)
    if coming is None or going is None or going.l2 is None or going.l2 > ILL_CONDITIONED * coming:
        return []
    hypothesis = Hypothesis(
        kind="ill-conditioned",
        statement=f"The gradient that leaves this normalisation is {going.l2 / coming:.1g} of the one that enters: "
        "it is the remainder of terms that cancel, so it differs between any two devices.",
        confirm="Judge it relative to the gradient that enters; see whether the parameters after the step agree.",
        score=0.9,
        evidence={"entering_l2": coming, "leaving_l2": going.l2},
    )
    return [(hypothesis, going.name, "statistics")]


SEEDS = {"python": "random.seed", "numpy": "numpy.random.seed"}
"""How each generator is seeded."""
NAMES = {"python": "Python", "numpy": "NumPy"}
POSSIBLE = 0.7


def other_branches(both: Both, step: int, rank: int) -> Hypothesis | None:
    """Return a guess where a generator of the host is in another state after the step, and was used in it.

    The state before the first step is not compared, because a script seeds its generators within that step. For the
    last recorded step the states before it are compared.
    """
    for at in (step + 1, step):
        if at > 0 and (names := _drawn_and_apart(both, at, rank)):
            seeds = " and ".join(SEEDS[name] for name in names)
            return Hypothesis(
                kind="randomness",
                statement=f"Random numbers of {' and '.join(NAMES[name] for name in names)} differ "
                f"between the runs by step {at}: they may have taken another branch.",
                confirm=f"Call {seeds} with one number in both runs, or set JUMAR_SEED, and compare again.",
                score=POSSIBLE,
                evidence={"generators": list(names), "step": at},
            )
    return None


def _drawn_and_apart(both: Both, at: int, rank: int) -> tuple[str, ...]:
    """Return the generators whose states differ when step `at` begins, and have changed in the step before it."""
    reference, target = (both.step_info(at, rank, of_target=of_target).rng for of_target in (False, True))
    before = [both.step_info(at - 1, rank, of_target=of_target).rng for of_target in (False, True)]
    return tuple(
        name
        for name in SEEDS
        if reference.get(name) and target.get(name) and reference[name] != target[name]
        if any(old.get(name) and old[name] != new[name] for old, new in zip(before, (reference, target), strict=True))
    )
