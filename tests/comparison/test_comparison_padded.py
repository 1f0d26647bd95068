"""A layer whose input one program pads itself: its inputs are of two sizes, and no fault."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jumar.comparison.model.calls import calls_of
from jumar.comparison.model.frameworks.partners.padded import without_padded
from jumar.recording.foreign.values import plain_row, tensor_row
from jumar.recording.schema import CallRow, Phase

Shape = tuple[int, ...]


def row(kind: str, given: Shape, made: Shape, phase: Phase = "forward") -> CallRow:
    first, second = ("input.0", "output.0") if phase == "forward" else ("grad_output.0", "grad_input.0")
    return CallRow(
        step=0, rank=0, seq=0, kind="module", phase=phase, module_path="conv", module_type=kind, name=kind,
        occurrence=0,
        inputs=(plain_row(first, given, "float32"),), outputs=(plain_row(second, made, "float32"),),
    )  # fmt: skip


def left(one: CallRow, other: CallRow) -> tuple[list[str], list[str], int]:
    (first, second), told = without_padded((calls_of([one], None), calls_of([other], None)))
    names = [[*call.inputs, *call.outputs] for call in (first[0], second[0])]
    return names[0], names[1], len(told)


def test_padding_outside_a_layer_leaves_its_input_out_and_says_so() -> None:
    one, other = row("Conv2d", (8, 8, 6, 6), (8, 16, 3, 3)), row("Conv2D", (8, 8, 8, 8), (8, 16, 3, 3))
    assert left(one, other) == (["output.0"], ["output.0"], 1)
    assert left(other, one) == (["output.0"], ["output.0"], 1)
    backward = [row("Conv2d", (8, 16, 3, 3), size, "backward") for size in ((8, 8, 6, 6), (8, 8, 8, 8))]
    assert left(*backward) == (["grad_output.0"], ["grad_output.0"], 1)


def test_an_input_with_figures_is_compared_without_its_zeros() -> None:
    image = np.random.default_rng(0).normal(size=(2, 3, 4, 4)).astype(np.float32)
    padded = np.pad(image, [(0, 0), (0, 0), (1, 1), (1, 1)])
    one, other = (
        replace(row("Conv2d", array.shape, (2, 8, 4, 4)), inputs=(tensor_row("input.0", array),))
        for array in (image, padded)
    )
    (first, second), told = without_padded((calls_of([one], None), calls_of([other], None)))
    a, b = first[0].inputs["input.0"], second[0].inputs["input.0"]
    assert len(told) == 1
    assert a.shape == b.shape == (2, 3, 4, 4)
    assert (a.l2, a.mean, a.minimum, a.maximum) == pytest.approx((b.l2, b.mean, b.minimum, b.maximum))


@pytest.mark.parametrize("given", [(8, 8, 6, 6), (4, 8, 8, 8), (8, 9, 8, 8), (8, 8, 8, 5), (8, 8)])
def test_other_shapes_are_still_compared(given: Shape) -> None:
    one, other = row("Conv2d", (8, 8, 6, 6), (8, 16, 3, 3)), row("Conv2D", given, (8, 16, 3, 3))
    assert left(one, other)[2] == 0


def test_other_layers_are_still_compared() -> None:
    one, other = row("BatchNorm2d", (8, 8, 6, 6), (8, 8, 6, 6)), row("BatchNorm2d", (8, 8, 8, 8), (8, 8, 8, 8))
    assert left(one, other)[2] == 0
    other = replace(row("Conv2D", (8, 8, 8, 8), (8, 16, 3, 3)), module_path="elsewhere")
    assert left(row("Conv2d", (8, 8, 6, 6), (8, 16, 3, 3)), other)[2] == 0
