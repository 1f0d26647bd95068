"""A model of ResNet-50's gradients: sizes of its 161 tensors, ready times in proportion to FLOPs; nothing is measured.

ResNet-50 as it was published first (the stride is in the 1×1 convolution), with 1,000 classes. A multiply-add of a
convolution or a product counts as one, each parameter of a batch norm as two a number that it normalises.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from jumar.tune.search.gradients.model import Gradient

BLOCKS = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Channels and number of the blocks of each stage."""
NORM_COST = 2
Layer = tuple[str, int, int]
"""Name of a parameter, its numbers, and what its gradient costs."""


def resnet50(backward_s: float) -> list[Gradient]:
    """Return the gradients in ready order, of a backward pass that takes so long."""
    layers = list(_parameters())
    total = sum(cost for _, _, cost in layers)
    costs = list(accumulate(cost for _, _, cost in reversed(layers)))
    return [
        Gradient(name=name, size_bytes=4 * count, ready_ns=round(cost / total * backward_s * 1e9), place=place)
        for cost, (place, (name, count, _)) in zip(costs, reversed(list(enumerate(layers))), strict=True)
    ]


def _parameters() -> Iterator[Layer]:
    """Yield the parameters in the order in which the model registers them."""
    yield from _convolution("conv1", 3, 64, 7, 112)
    channels, side = 64, 56
    for stage, (width, count) in enumerate(BLOCKS):
        for block in range(count):
            side = side // 2 if stage and not block else side
            name = f"layer{stage + 1}.{block}"
            yield from _convolution(f"{name}.conv1", channels, width, 1, side)
            yield from _convolution(f"{name}.conv2", width, width, 3, side)
            yield from _convolution(f"{name}.conv3", width, 4 * width, 1, side)
            if not block:
                yield from _convolution(f"{name}.downsample", channels, 4 * width, 1, side)
            channels = 4 * width
    yield "fc.weight", 1000 * channels, 1000 * channels
    yield "fc.bias", 1000, 0


def _convolution(name: str, inputs: int, outputs: int, kernel: int, side: int) -> Iterator[Layer]:
    """Yield a convolution without bias, and the batch norm after it, on an output of `side` × `side`."""
    count = inputs * outputs * kernel * kernel
    yield f"{name}.weight", count, count * side * side
    for parameter in ("weight", "bias"):
        yield f"{name}.norm.{parameter}", outputs, NORM_COST * outputs * side * side
