"""`verify`: both models on the same inputs, the target with the mapped values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from jumar.base.errors import InputError
from jumar.export.mapping.sides.side import Side

RELATIVE, ABSOLUTE = 1e-3, 1e-4
"""An output of the target must be within `absolute + relative * |output of the source|`, as for ONNX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDifference:
    """How far one output of the target is from the source's."""

    output: int
    shape: tuple[int, ...]
    greatest_absolute: float
    """Infinite where the shapes differ or a value is NaN on one side alone."""
    is_within: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What running both models found."""

    differences: tuple[OutputDifference, ...] = ()
    not_verified: str = ""
    """Why nothing was compared; empty where it was."""
    remark: str = ""
    """What limits the comparison."""

    @property
    def agrees(self) -> bool:
        """Whether all outputs were compared and are within the tolerance."""
        return not self.not_verified and all(item.is_within for item in self.differences)


def verify(source: Side, target: Side, state: Mapping[str, torch.Tensor]) -> Verification:
    """Run both models on the source's example inputs (else the target's) and compare all outputs.

    The target's model has the values of `state` afterwards. Raises InputError where a model cannot be run.
    """
    lacking = [side.label for side in (source, target) if side.program is None]
    if lacking:
        return Verification(not_verified=f"no factory makes the model of {' and '.join(lacking)}")
    inputs = source.program.inputs or target.program.inputs
    if not inputs:
        return Verification(not_verified="neither factory gives example inputs: return (model, inputs)")
    target.program.load(state)
    outputs = _run(source, inputs), _run(target, inputs)
    if len(outputs[0]) != len(outputs[1]) or not outputs[0]:
        numbers = " and ".join(str(len(found)) for found in outputs)
        return Verification(not_verified=f"the models give {numbers} tensors, which cannot be compared one by one")
    pairs = zip(*outputs, strict=True)
    return Verification(differences=tuple(_difference(place, *pair) for place, pair in enumerate(pairs)))


def _run(side: Side, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    try:
        found: list[torch.Tensor] = side.program.run(inputs)
    except Exception as error:  # a forward of the user's raises what it likes
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")
        raise InputError(f"{side.label} does not run on the example inputs ({reason}); correct the factory.") from error
    return found


def _difference(place: int, one: torch.Tensor, other: torch.Tensor) -> OutputDifference:
    shape = tuple(one.shape)
    if shape != tuple(other.shape):
        return OutputDifference(output=place, shape=shape, greatest_absolute=float("inf"), is_within=False)
    first, second = one.to(torch.float64), other.to(torch.float64)
    gap = (first - second).abs()
    gap = torch.where((first == second) | (first.isnan() & second.isnan()), torch.zeros_like(gap), gap)
    gap = torch.where(gap.isnan(), torch.full_like(gap, float("inf")), gap)
    greatest = float(gap.max()) if gap.numel() else 0.0
    is_within = bool((gap <= ABSOLUTE + RELATIVE * torch.nan_to_num(first.abs())).all())
    return OutputDifference(output=place, shape=shape, greatest_absolute=greatest, is_within=is_within)
