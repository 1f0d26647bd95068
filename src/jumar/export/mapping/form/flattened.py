"""Matrices behind a flattened image, whose columns another framework has in another order: `with_columns`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from jumar.export.mapping.form.unit import Slot, Unit
from jumar.export.mapping.transforms import Step


def with_columns(units: Sequence[Unit]) -> list[Unit]:
    """Return the units of PyTorch with the columns behind a flattened image as Keras has them: H W C, not C H W.

    The order of PyTorch's names is that of the program: the first matrix behind a convolution, and others with as many
    columns, may follow a flattened image. No file holds the image's size: a square is assumed, and doubted.
    """
    found: list[Unit] = []
    convolution: tuple[int, int] = (0, 0)
    flat: tuple[int, int, int] | None = None  # columns, channels, dimensions of the kernel
    for unit in units:
        slot = unit.slots.get("weight")
        if slot is not None and len(slot.shape) in (3, 4, 5):
            convolution = slot.shape[0], len(slot.shape)
        elif slot is not None and len(slot.shape) == 2:
            if convolution[0] and slot.shape[1] > convolution[0]:
                flat = slot.shape[1], *convolution
            convolution = (0, 0)
            if flat is not None and slot.shape[1] == flat[0]:
                slots = {**unit.slots, "weight": _doubtful(slot, *flat[1:])}
                found.append(replace(unit, slots=slots))
                continue
        found.append(unit)
    return found


def _doubtful(slot: Slot, channels: int, dimensions: int) -> Slot:
    times, rest = divmod(slot.shape[1], channels)
    height, width = (1, times) if dimensions == 3 else (math.isqrt(times),) * 2
    doubt = f"behind a convolution with {channels} channels"
    if rest or dimensions > 4 or height * width != times:
        return replace(slot, doubt=f"{doubt}: the order of its {slot.shape[1]} columns is not known")
    step = Step("columns", (channels, height, width), ("chw", "hwc"))
    return replace(slot, steps=(*slot.steps, step), doubt=f"{doubt}, flattened from {height} x {width} if so")
