"""What the kernels will do, one step an operation, before anything has a place in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from jumar.tune.graph import Reference

Post = Literal["none", "silu", "sigmoid", "hardswish", "hardsigmoid"]
POSTS: tuple[Post, ...] = ("none", "silu", "sigmoid", "hardswish", "hardsigmoid")
"""In the order of `enum Post` in vector.hpp."""


@dataclass(slots=True, kw_only=True)
class Step:
    """One operation. Subclasses add what they need; `Step` itself is an operator that ATen computes."""

    inputs: list[Reference]
    output: Reference
    low: float = -math.inf
    high: float = math.inf
    post: Post = "none"

    @property
    def activated(self) -> bool:
        """Whether an activation is part of the step already."""
        return self.post != "none" or (self.low, self.high) != (-math.inf, math.inf)


@dataclass(slots=True, kw_only=True)
class Aten(Step):
    """Computed by ATen, on ordinary tensors."""


@dataclass(frozen=True, slots=True)
class Norm:
    """A batch normalization with fixed statistics; places of its tensors."""

    weight: Reference | None
    bias: Reference | None
    mean: Reference
    variance: Reference
    epsilon: float


@dataclass(slots=True, kw_only=True)
class Conv(Step):
    """A convolution or linear layer, with what follows it: normalization, a second addend, an activation."""

    weight: Reference
    bias: Reference | None
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Top, left, bottom, right."""
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    kernel: tuple[int, int] = (1, 1)
    turned: bool = False
    """The weight of a product is [in, out]."""
    channels: tuple[int, int] = (1, 1)
    """In and out."""
    norm: Norm | None = None
    other: Reference | None = None
    """Added before the activation."""

    @property
    def is_depthwise(self) -> bool:
        """Every input channel makes its own outputs."""
        return self.groups == self.channels[0] and self.groups > 1

    @property
    def is_square3(self) -> bool:
        """What Winograd's algorithm takes."""
        return (self.kernel, self.stride, self.dilation, self.groups) == ((3, 3), (1, 1), (1, 1), 1)


@dataclass(slots=True, kw_only=True)
class Pool(Step):
    """Maximum or average over windows."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    maximum: bool
    count_padding: bool = True
    divisor: int = 0
    """0: the size of the window."""


@dataclass(slots=True, kw_only=True)
class Mean(Step):
    """Mean over all pixels."""


@dataclass(slots=True, kw_only=True)
class Affine(Step):
    """Each channel scaled and shifted (a normalization that follows no convolution), or an activation alone."""

    norm: Norm | None = None


@dataclass(slots=True, kw_only=True)
class Binary(Step):
    """Two values, element by element."""

    kind: Literal["add", "mul", "sub"]


@dataclass(slots=True, kw_only=True)
class Gelu(Step):
    """GELU by tanh, from one ordinary, contiguous tensor to another."""


@dataclass(slots=True, kw_only=True)
class Channels(Step):
    """Some channels of some values, in any order: nothing is computed, and often nothing copied."""

    picks: Sequence[tuple[int, int]]
    """For each channel of the output: which input, and which channel of it."""


@dataclass(slots=True, kw_only=True)
class Steps:
    """A graph as steps, in order."""

    steps: list[Step] = field(default_factory=list)
    aliases: dict[Reference, Reference] = field(default_factory=dict)
    """Values that are another under a new shape, or unchanged."""

    def value(self, reference: Reference) -> Reference:
        """Return the value that stands behind aliases."""
        while reference in self.aliases:
            reference = self.aliases[reference]
        return reference
