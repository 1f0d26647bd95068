"""The figures of one compared pair of calls: errors, tolerances, status, as they are published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jumar.accuracy.calls import Call
from jumar.accuracy.canonical import RANDOM
from jumar.accuracy.measure import Measure
from jumar.accuracy.memory import Memory
from jumar.accuracy.outputs import OutputJudge, OutputVerdict
from jumar.accuracy.pairing import argument_differences
from jumar.accuracy.reading import Inputs
from jumar.accuracy.results import ArgumentDiff, OperatorDiff, OperatorStatus
from jumar.accuracy.shown import Shown
from jumar.accuracy.tolerance import error_model

Output = tuple[str, Measure]
"""Name and distance of an output."""

Judged = tuple[OutputVerdict, float]
"""The verdict of an output, and the greatest absolute error of an element that it allows for."""


def judge_outputs(
    reference: Call, inputs: Inputs, found: Iterable[Output], memory: Memory, strict: float
) -> list[Judged | None]:
    """Judge each output of a pair; None for one of which nothing is known. `strict` is a factor on every tolerance."""
    judge = OutputJudge(reference, error_model(reference), inputs, memory, strict)
    return [judge.judge(name, m) if m.known else None for name, m in found]


def compared_diff(
    reference: Call, target: Call, inputs: Inputs, found: Sequence[Output], judged: Sequence[Judged | None]
) -> OperatorDiff:
    """Return the public record of a pair of which at least one output was judged."""
    arguments = argument_differences(reference, target)
    known = [output[0] for output in judged if output is not None]
    worst = known[0] if len(known) == 1 else max(known, key=lambda output: (output.excess, output.error))
    return blank_diff(
        reference,
        target,
        inputs,
        status=_status(reference, inputs, found, worst, arguments),
        outputs=Shown(
            [
                (name, m, output[0].error if output is not None else None)
                for (name, m), output in zip(found, judged, strict=True)
            ]
        ),
        error=worst.error,
        floor=worst.floor,
        tolerance=worst.tolerance,
        rounding=worst.rounding,
        tolerance_origin=worst.origin,
        arguments=arguments,
        note=inputs.complaint,
    )


def _status(
    call: Call,
    inputs: Inputs,
    found: Iterable[Output],
    worst: OutputVerdict,
    arguments: Iterable[ArgumentDiff],
) -> OperatorStatus:
    other_arguments = any(argument.given for argument in arguments)
    differs = worst.excess > 1.0 or (other_arguments and worst.error > worst.rounding)
    if differs and call.operator in RANDOM and _drew_others(found):
        return "random"
    if differs or inputs.out_of_line is not None:
        return "diverge"
    return "inherited" if worst.error > worst.rounding else "agree"


def _drew_others(found: Iterable[Output]) -> bool:
    """Return whether the random numbers differ: a mask, where the call returns one, tells them from their scaling."""
    masks = [m for _, m in found if m.reference.dtype in {"bool", "uint8"}]
    return not all(m.equal for m in masks) if masks else True


def blank_diff(reference: Call, target: Call, inputs: Inputs, **figures: Any) -> OperatorDiff:
    """Return the public record of a pair, with the figures given."""
    row, other = reference.row, target.row
    return OperatorDiff(
        step=row.step,
        rank=row.rank,
        kind=row.kind,
        phase=row.phase,
        module_path=reference.path,
        module_type=row.module_type,
        occurrence=row.occurrence,
        reference_name=row.name,
        target_name=other.name,
        reference_seq=row.seq,
        target_seq=other.seq,
        source=other.source or row.source,
        reference_source=row.source,
        inherited=inputs.worst,
        inputs=Shown(inputs.measures),
        **figures,
    )
