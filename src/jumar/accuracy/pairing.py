"""Which tensors and arguments of two calls belong together."""

from __future__ import annotations

import json
from typing import Literal

from jumar.accuracy.calls import Call
from jumar.accuracy.canonical import names
from jumar.accuracy.results import ArgumentDiff
from jumar.accuracy.tolerance import epsilon
from jumar.recording.schema import TensorRow

IGNORED_ARGUMENTS = names(
    "device layout memory_format pin_memory non_blocking generator requires_grad output_mask copy"
)
"""Arguments in which devices differ by nature, or that the outputs show."""

DEFAULT = "(default)"
"""Stands for an argument that one side did not give."""


def same_operator(reference: Call, target: Call) -> bool:
    """Return whether both calls are of one operator (any overload, in place or not), not of two variants of it."""
    first, second = reference.row.name, target.row.name
    return first == second or first.split(".", 1)[0].rstrip("_") == second.split(".", 1)[0].rstrip("_")


def paired(reference: Call, target: Call, side: Literal["inputs", "outputs"]) -> list[tuple[str, TensorRow, TensorRow]]:
    """Return (name, reference, target) of the tensors that belong together.

    By name; variants of a kernel take their arguments in another order, there by shape and order.
    """
    first: dict[str, TensorRow] = getattr(reference, side)
    second: dict[str, TensorRow] = getattr(target, side)
    if reference.row.kind != "op" or same_operator(reference, target):
        return [(name, tensor, other) for name, tensor in first.items() if (other := second.get(name)) is not None]
    left = list(second.values())
    pairs = []
    for name, tensor in first.items():
        other = next((t for t in left if t.shape == tensor.shape and _same_family(t.dtype, tensor.dtype)), None)
        if other is not None:
            left.remove(other)
            pairs.append((name, tensor, other))
    return pairs


def _same_family(first: str, second: str) -> bool:
    return first == second or (epsilon(first) > 0 and epsilon(second) > 0)


def argument_differences(reference: Call, target: Call) -> tuple[ArgumentDiff, ...]:
    """Return the scalar arguments that differ between two calls of an equally named operator."""
    same_item = (reference.item is None) == (target.item is None)
    if reference.row.arguments == target.row.arguments or not (same_operator(reference, target) and same_item):
        return ()
    try:
        mine, theirs = reference.arguments(), target.arguments()
    except json.JSONDecodeError:
        return ()
    return tuple(
        ArgumentDiff(
            name=name,
            reference=mine.get(name, DEFAULT),
            target=theirs.get(name, DEFAULT),
            given=name in mine and name in theirs,
        )
        for name in {**mine, **theirs}
        if not _ignored(name) and mine.get(name, DEFAULT) != theirs.get(name, DEFAULT)
    )


def _ignored(name: str) -> bool:
    return name in IGNORED_ARGUMENTS or name.endswith("dtype")
