"""Makes the tensors of a case smaller while the error stays: halves of the dimensions.

A dimension can be halved when the exact result of a slice of the inputs is the slice of the exact result. Each cut is
tried. Where the output sums over the dimension, the error must be measured again on the device.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from jumar.base.text import size_text
from jumar.comparison.replay.figures import to_array
from jumar.comparison.replay.judge import exceeds, natural_scales, own_error
from jumar.comparison.replay.rebuilt.execute import Inputs, run
from jumar.comparison.replay.rebuilt.memory import Array
from jumar.comparison.replay.rebuilt.place import TRUTH, Place
from jumar.comparison.replay.rebuilt.refusal import NotReplayable
from jumar.comparison.replay.results import OutputError, OwnError
from jumar.comparison.repro.case import Case, Step
from jumar.recording import TensorRow

MAX_CUTS = 48
"""Ways to slice that are tried for one dimension of the output."""

CLOSE = 1e-9
"""Relative distance within which a slice's exact result is the slice of the exact result (sums in another order)."""

Cut = Mapping[str, int]
"""By tensor: the dimension along which it is sliced."""


@dataclass(frozen=True, slots=True)
class _Range:
    start: int
    end: int


def reduce(case: Case, max_bytes: int, device: Place | None) -> Case:
    """Return the case with tensors of at most `max_bytes`, or as few as the error allows.

    `device` is where the error can be measured anew; None where only the recorded output shows it. Chains are not
    reduced. The result has a note where the limit is not kept.
    """
    if case.size_bytes() <= max_bytes:
        return case
    small = case
    if len(case.steps) == 1 and case.exact is None:
        small = _Reducer(max_bytes, None).reduced(case)
        if small.size_bytes() > max_bytes and device is not None:
            small = _Reducer(max_bytes, device).reduced(small)
    if small.size_bytes() > max_bytes:
        reason = (
            "a chain is not sliced" if len(case.steps) > 1 else "no dimension can be sliced so that the error stays"
        )
        small = small.noted(f"the tensors take {size_text(small.size_bytes())}: {reason}")
    return small


class _Reducer:
    def __init__(self, max_bytes: int, device: Place | None) -> None:
        self._max_bytes = max_bytes
        self._device = device
        self._known: tuple[Case, dict[str, torch.Tensor]] | None = None

    def _whole(self, case: Case) -> dict[str, torch.Tensor]:
        """Return the exact outputs of a case, calculated once."""
        if self._known is None or self._known[0] is not case:
            self._known = case, run(case.last.inputs, replace(TRUTH, precision=case.precision))
        return self._known[1]

    def reduced(self, case: Case) -> Case:
        """Halve one dimension after the other."""
        for cut in list(self._cuts(case)):
            while case.size_bytes() > self._max_bytes:
                smaller = self._halved(case, cut)
                if smaller is None:
                    break
                case = smaller
        return case

    def _cuts(self, case: Case) -> Iterator[Cut]:
        """Yield ways to slice: for each dimension of the worst output, the likely dimensions of the inputs."""
        output = _worst(case)
        inputs = case.last.inputs.invocation.tensors
        sizes = dict.fromkeys(n for tensor in (output, *inputs) for n in tensor.shape if n > 1)
        axes: list[tuple[int | None, int]] = [(axis, n) for axis, n in enumerate(output.shape) if n > 1]
        if self._device is not None:
            axes = [(None, n) for n in sizes] + axes
        for axis, n in axes:
            choices = [_axes_of(tensor, n, axis) for tensor in inputs]
            for chosen in itertools.islice(itertools.product(*choices), MAX_CUTS):
                cut = {t.name: at for t, at in zip(inputs, chosen, strict=True) if at is not None}
                if cut:
                    yield cut if axis is None else {**cut, output.name: axis}

    def _halved(self, case: Case, cut: Cut) -> Case | None:
        """Return the half whose error is greater, or None when neither has it."""
        rows = {t.name: t for t in (*case.last.inputs.invocation.tensors, *case.row.outputs)}
        sizes = {rows[name].shape[axis] for name, axis in cut.items()}
        n = min(sizes)
        if len(sizes) != 1 or n < 2:
            return None
        halves = [self._part(case, cut, _Range(*ends)) for ends in ((0, n // 2), (n // 2, n))]
        known = [half for half in halves if half is not None]
        return max(known, key=_excess, default=None)

    def _part(self, case: Case, cut: Cut, part: _Range) -> Case | None:
        inputs = _sliced(case.last.inputs, cut, part)
        try:
            exact = run(inputs, replace(TRUTH, precision=case.precision))
            if self._device is None:
                name = _worst(case).name
                if name not in cut or not _is_slice(self._whole(case)[name], exact[name], cut[name], part):
                    return None
            else:
                inputs = _with_outputs(inputs, run(inputs, self._device))
        except NotReplayable:
            return None
        own = own_error(inputs.row, inputs.arrays, exact)
        own = OwnError(outputs=_of_worst(case, own))
        if not own.outputs or (exceeds(case.own) and not exceeds(own)):
            return None
        return _with_inputs(case, inputs, own, self._device is not None)


def _axes_of(tensor: TensorRow, n: int, axis: int | None) -> list[int | None]:
    """Return the dimensions of size `n`, the output's own first, and None for not slicing it."""
    axes = [at for at, size in enumerate(tensor.shape) if size == n]
    axes.sort(key=lambda at: at != (axis or 0))
    return [*axes, None]


def _worst(case: Case) -> TensorRow:
    worst = case.own.worst
    outputs = case.outputs
    return next((tensor for tensor in outputs if worst is not None and tensor.name == worst.name), outputs[0])


def _excess(case: Case) -> float:
    worst = case.own.worst
    return worst.excess if worst is not None else 0.0


def _is_slice(whole: torch.Tensor, found: torch.Tensor, axis: int, part: _Range) -> bool:
    """Return whether the exact result of the sliced inputs is the slice of the exact result."""
    expected = whole.narrow(axis, part.start, part.end - part.start)
    if found.shape != expected.shape:
        return False
    if not found.is_floating_point():
        return bool(torch.equal(found, expected))
    scale = float(torch.nan_to_num(expected).abs().max()) if expected.numel() else 0.0
    return bool(torch.allclose(found, expected, rtol=CLOSE, atol=CLOSE * scale, equal_nan=True))


def _of_worst(case: Case, own: OwnError) -> tuple[OutputError, ...]:
    """Return the error of the output that the case is about, with the tolerance it had before."""
    name = _worst(case).name
    before = {output.name: output.tolerance for output in case.own.outputs}
    return tuple(
        replace(output, tolerance=max(output.tolerance, before[name])) for output in own.outputs if output.name == name
    )


def _sliced(inputs: Inputs, cut: Cut, part: _Range) -> Inputs:
    arrays = {name: _sliced_array(array, cut.get(name), part) for name, array in inputs.arrays.items()}

    def change(tensors: tuple[TensorRow, ...]) -> tuple[TensorRow, ...]:
        return tuple(_sliced_row(t, cut[t.name], part, arrays[t.name]) if t.name in cut else t for t in tensors)

    row = replace(inputs.row, inputs=change(inputs.row.inputs), outputs=change(inputs.row.outputs))
    by_name = {tensor.name: tensor for tensor in row.inputs + row.outputs}
    values = inputs.invocation.mapped(lambda at: replace(at, row=by_name[at.row.name]))
    return Inputs(row, replace(inputs.invocation, values=values), arrays, inputs.only)


def _sliced_row(row: TensorRow, axis: int, part: _Range, array: Array) -> TensorRow:
    """Return the row of a slice; its memory keeps the order of its dimensions and loses its gaps."""
    shape = tuple(part.end - part.start if at == axis else n for at, n in enumerate(row.shape))
    order = sorted(range(len(shape)), key=lambda at: (row.stride[at], shape[at] == 1), reverse=True)
    stride, step = [0] * len(shape), 1
    for at in reversed(order):
        stride[at] = 0 if row.stride[at] == 0 and shape[at] > 1 else step
        step *= 1 if stride[at] == 0 else shape[at]
    l2 = None
    if array.dtype.kind == "f":
        l2 = float(np.linalg.norm(array[np.isfinite(array)].astype(np.float64)))
    packed = replace(row, shape=shape, stride=tuple(stride), storage_offset=0)
    return replace(packed, l2=l2, minimum=None, maximum=None, mean=None)


def _sliced_array(array: Array, axis: int | None, part: _Range) -> Array:
    if axis is None:
        return array
    return np.ascontiguousarray(np.take(array, range(part.start, part.end), axis))


def _with_outputs(inputs: Inputs, found: Mapping[str, torch.Tensor]) -> Inputs:
    """Return the call with outputs calculated anew as the recorded ones."""
    outputs = tuple(
        replace(tensor, shape=tuple(found[tensor.name].shape)) if tensor.name in found else tensor
        for tensor in inputs.row.outputs
    )
    arrays = {**inputs.arrays, **{name: to_array(tensor) for name, tensor in found.items()}}
    return Inputs(replace(inputs.row, outputs=outputs), inputs.invocation, arrays, inputs.only)


def _with_inputs(case: Case, inputs: Inputs, own: OwnError, anew: bool) -> Case:
    what = "the outputs calculated anew on the device" if anew else "the outputs too"
    kept = tuple(text for text in case.notes if not text.startswith(_SLICES))
    steps = (Step(inputs=inputs, links={}),)
    return replace(case, steps=steps, own=own, natural=natural_scales(inputs.row), notes=(*kept, f"{_SLICES}, {what}"))


_SLICES = "the tensors are slices of the recorded ones"
