"""Pairs the steps of two recordings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from jumar.comparison.model.correspondence import Shift
from jumar.recording.schema import CallRow

FURTHEST = 8
"""Offsets between the numbers of the steps that are looked at."""

EQUAL = 1e-5
"""Relative difference up to which losses are those of one step."""

OTHER = 1e-3
"""Relative difference from which they are not."""

FEWEST = 2
"""Losses that must agree before an offset is believed."""


def step_pairs(reference: Sequence[int], target: Sequence[int], offset: int) -> list[tuple[int, int]]:
    """Return the pairs of steps that both recordings have, in order; `offset` is added to the reference's step."""
    of_target = set(target)
    return [(step, step + offset) for step in sorted(reference) if step + offset in of_target]


def find_offset(reference: Sequence[tuple[int, float]], target: Sequence[tuple[int, float]]) -> int:
    """Return the offset at which the losses agree when the first losses do not agree without one, else 0.

    The losses that two recordings have in common at an offset must all agree, be at least `FEWEST`, and not be
    all the same.
    """
    of_reference, of_target = dict(reference), dict(target)
    first = min(of_reference.keys() & of_target.keys(), default=None)
    if first is not None and _apart({first: of_reference[first]}, of_target, 0) <= OTHER:
        return 0
    for distance in range(1, FURTHEST + 1):
        for offset in (distance, -distance):
            common = [step for step in of_reference if step + offset in of_target]
            vary = len(common) >= FEWEST and len({of_reference[step] for step in common}) >= FEWEST
            if vary and _apart(of_reference, of_target, offset) <= EQUAL:
                return offset
    return 0


def _apart(reference: Mapping[int, float], target: Mapping[int, float], offset: int) -> float:
    """Return the greatest relative difference of the losses; inf where one is not finite, or there is no pair."""
    pairs = [(loss, target[step + offset]) for step, loss in reference.items() if step + offset in target]
    if not pairs or not all(math.isfinite(loss) for pair in pairs for loss in pair):
        return math.inf
    return max(abs(one - other) / (max(abs(one), abs(other)) or 1.0) for one, other in pairs)


def offset_shift(rank: int, offset: int) -> Shift:
    """Return the finding's part for an offset."""
    return Shift(
        kind="offset",
        rank=rank,
        offset=offset,
        sentence=f"step n of the reference is step n{offset:+d} of the target: their losses agree so",
    )


def micro_steps(reference: Sequence[CallRow], target: Sequence[CallRow], rank: int) -> Shift | None:
    """Return how many times each side calls `.backward()` in a step, when that differs (gradient accumulation)."""
    of_reference, of_target = (sum(row.kind == "loss" for row in rows) for rows in (reference, target))
    if of_reference == of_target or not of_reference or not of_target:
        return None
    return Shift(
        kind="micro-steps",
        rank=rank,
        counts=(of_reference, of_target),
        sentence=f"a step of the reference has {of_reference} backward passes and one of the target {of_target} "
        "(gradient accumulation): of equal micro-batches the first are compared, of others only the gradients and "
        "parameters at the end of the step",
    )


def losses_alike(
    reference: Sequence[tuple[int, float]], target: Sequence[tuple[int, float]], counts: tuple[int, int]
) -> list[tuple[int, float]]:
    """Return the target's losses on the scale of the reference's, where the sides cut a step into other parts.

    A recorded loss is the mean over the backward passes of a step. A script that divides the loss of each by their
    number has losses smaller by that factor; which of the two it is shows in the first common step.
    """
    of_reference, of_target = dict(reference), dict(target)
    first = min(of_reference.keys() & of_target.keys(), default=None)
    if counts[0] == counts[1] or first is None:
        return list(target)
    factor = counts[1] / counts[0]
    divided = abs(of_target[first] * factor - of_reference[first]) < abs(of_target[first] - of_reference[first])
    return [(step, loss * factor) for step, loss in target] if divided else list(target)
