"""Follows the loss scale through the backward pass, and measures tensors in one scale: `LossScaling`, `Measures`.

Half-precision trainings multiply the loss by a power of two, and every gradient carries that factor
until the optimizer's step. Backward operators are linear in the gradient, so a tensor that one of them
returns carries the factor of the gradients that it read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jumar.comparison.judge.flow import Side
from jumar.comparison.measure.distances import Measure, measure
from jumar.comparison.measure.loading import Loaders
from jumar.comparison.model.calls import Call, brings_in, loss_scale
from jumar.comparison.model.results import ArgumentDiff
from jumar.recording.schema import CallRow, TensorRow

UNSCALING = "unscale"
"""Part of the name of operators that divide gradients by the scale, in place."""


class LossScaling:
    """The factor in each storage of both sides of one step. Does nothing where the two scales are equal."""

    def __init__(self, reference: Sequence[CallRow], target: Sequence[CallRow]) -> None:
        self.scales: dict[Side, float] = {"reference": loss_scale(reference), "target": loss_scale(target)}
        self.differs = self.scales["reference"] != self.scales["target"]
        self._factors: dict[Side, dict[int, float]] = {"reference": {}, "target": {}}

    def makes(self, call: Call, side: Side) -> bool:
        """Return whether the call brings the scale in: a product of single elements, one of which is the scale, or the
        scale itself."""
        return self.differs and brings_in(call, self.scales[side])

    def takes_out(self, call: Call) -> bool:
        """Return whether the call divides gradients by the scale, which leaves them as they are in the other side's."""
        return self.differs and UNSCALING in call.operator

    def brings_in(self, reference: Call, target: Call) -> bool:
        """Return whether both calls bring their side's own scale in, so that their results cannot agree."""
        return self.makes(reference, "reference") and self.makes(target, "target")

    def are_scales(self, argument: ArgumentDiff) -> bool:
        """Return whether an argument is each side's own scale."""
        return (argument.reference, argument.target) == (self.scales["reference"], self.scales["target"])

    def note(self, call: Call, side: Side) -> None:
        """Take note of what a call hands on. Calls must be noted in the order of execution."""
        if not self.differs:
            return
        factors = self._factors[side]
        if self.takes_out(call):
            for tensor in call.inputs.values():
                factors.pop(tensor.storage, None)
            return
        factor = self._handed_on(call, side)
        for tensor in call.outputs.values():
            if factor == 1.0:
                factors.pop(tensor.storage, None)
            else:
                factors[tensor.storage] = factor

    def _handed_on(self, call: Call, side: Side) -> float:
        if self.makes(call, side):
            return self.scales[side]
        if call.row.phase != "backward":
            return 1.0
        factors = self._factors[side]
        return max((factors.get(tensor.storage, 1.0) for tensor in call.inputs.values()), default=1.0)

    def measure(self, reference: TensorRow, target: TensorRow, load: Loaders) -> Measure:
        """Measure two tensors, the target's in the reference's scale."""
        if not self.differs:
            return measure(reference, target, load)
        of_reference = self._factors["reference"].get(reference.storage, 1.0)
        of_target = self._factors["target"].get(target.storage, 1.0)
        return _measure_scaled(reference, target, load, of_reference / of_target)

    def measure_either(self, reference: TensorRow, target: TensorRow, load: Loaders) -> Measure:
        """Measure what an optimizer read or left: without the scales, or (a fused optimizer takes them out itself)
        with them, whichever makes the two more alike."""
        plain = measure(reference, target, load)
        if not self.differs or not plain.known:
            return plain
        ratio = self.scales["reference"] / self.scales["target"]
        return min(plain, _measure_scaled(reference, target, load, ratio), key=lambda found: found.error())


def _measure_scaled(reference: TensorRow, target: TensorRow, load: Loaders, ratio: float) -> Measure:
    if ratio == 1.0:
        return measure(reference, target, load)
    return measure(reference, rescaled(target, ratio), _scaled_loaders(load, ratio))


def rescaled(tensor: TensorRow, factor: float) -> TensorRow:
    """Return the row of the tensor multiplied by a positive factor."""
    figures = {
        name: value * factor
        for name in ("minimum", "maximum", "mean", "l2")
        if (value := getattr(tensor, name)) is not None
    }
    if tensor.sketch is not None:
        figures["sketch"] = _scaled_sketch(tensor.sketch, factor)
    return replace(tensor, **figures)


def _scaled_sketch(sketch: bytes, factor: float) -> bytes:
    import numpy as np

    return (np.frombuffer(sketch, "<f4") * np.float32(factor)).astype("<f4").tobytes()


def _scaled_loaders(load: Loaders, factor: float) -> Loaders:
    if load is None:
        return None
    reference, target = load

    def scaled(tensor: TensorRow) -> object:
        import numpy as np

        array = target(tensor)
        # NOTE: multiplying an array without dimensions gives a scalar, which is no array any more
        return None if array is None else np.asarray(array.astype(np.float64) * factor)

    return reference, scaled  # type: ignore[return-value]  # numpy is imported where arrays are, not here


class Measures:
    """Distances of tensor pairs of one step, by storage. Whole tensors are measured anew, for they take memory."""

    def __init__(self, scaling: LossScaling) -> None:
        self._scaling = scaling
        self._known: dict[tuple[int, int], Measure] = {}

    def take(self, reference: TensorRow, target: TensorRow, load: Loaders) -> Measure:
        """Return the distance; one taken before where both storages still hold the same figures."""
        if load is not None or self._scaling.differs or not reference.storage or not target.storage:
            return self._scaling.measure(reference, target, load)
        storages = reference.storage, target.storage
        known = self._known.get(storages)
        if known is None or not (_same(known.reference, reference) and _same(known.target, target)):
            known = self._known[storages] = self._scaling.measure(reference, target, load)
        return known


def _same(first: TensorRow, second: TensorRow) -> bool:
    return (
        first.l2 == second.l2
        and first.mean == second.mean
        and first.minimum == second.minimum
        and first.maximum == second.maximum
        and first.num_nan == second.num_nan
        and first.num_inf == second.num_inf
        and first.shape == second.shape
        and first.dtype == second.dtype
        and first.sketch == second.sketch
        and first.hash == second.hash
    )
