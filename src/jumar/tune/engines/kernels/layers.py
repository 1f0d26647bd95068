"""Convolutions, linear layers and products with a constant matrix as steps."""

from __future__ import annotations

from typing import Any

from jumar.tune.engines.kernels.arguments import pair, value_of
from jumar.tune.engines.kernels.context import Context
from jumar.tune.engines.kernels.steps import Conv
from jumar.tune.graph import Node, Reference

Arguments = dict[str, Any]


class Layers(Context):
    """Reads what has weights. Every reader returns whether it took the node."""

    def conv(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a convolution of two dimensions."""
        source, weight, bias = value_of(given["input"]), value_of(given["weight"]), value_of(given["bias"])
        if source is None or weight is None or given.get("transposed") or not self.is_constant(weight):
            return False
        if not self.is_constant(bias) or len(self.shape(source)) != 4 or not self.shape(place):
            return False
        out, _, height, width = self.shape(weight)
        dilation = pair(given["dilation"])
        sides = _padding(given["padding"], (height, width), dilation)
        source = self.steps.value(source)
        if source in self.pads:
            source, more = self.pads[source]
            sides = tuple(a + b for a, b in zip(sides, more, strict=True))  # type: ignore[assignment]
        return self.add(
            Conv(
                inputs=[source], output=place, weight=weight, bias=bias, stride=pair(given["stride"]), padding=sides,
                dilation=dilation, groups=int(given["groups"]), kernel=(height, width),
                channels=(self.shape(source)[1], out),
            )
        )  # fmt: skip

    def linear(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a linear layer of rows."""
        source, weight, bias = value_of(given["input"]), value_of(given["weight"]), value_of(given["bias"])
        if source is None or weight is None or not self.is_constant(weight) or not self.is_constant(bias):
            return False
        if len(self.shape(source)) != 2 or len(self.shape(weight)) != 2 or not self.shape(place):
            return False
        out, features = self.shape(weight)
        if bias is not None and self.shape(bias) != (out,):
            return False
        source = self.steps.value(source)
        return self.add(Conv(inputs=[source], output=place, weight=weight, bias=bias, channels=(features, out)))

    def product(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a product with a constant matrix, with a constant row added or none."""
        source, weight, bias = value_of(given["input"]), value_of(given["mat2"]), value_of(given.get("bias"))
        if source is None or weight is None or not self.is_constant(weight) or not self.is_constant(bias):
            return False
        if (
            len(self.shape(source)) != 2
            or not self.shape(place)
            or (given.get("beta", 1), given.get("alpha", 1)) != (1, 1)
        ):
            return False
        if len(self.shape(weight)) != 2:
            return False
        features, out = self.shape(weight)
        if bias is not None and self.shape(bias) != (out,):
            return False
        source = self.steps.value(source)
        return self.add(
            Conv(inputs=[source], output=place, weight=weight, bias=bias, turned=True, channels=(features, out))
        )


def _padding(padding: Any, kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int, int, int]:
    if padding == "valid":
        return 0, 0, 0, 0
    if padding == "same":
        whole = [step * (size - 1) for size, step in zip(kernel, dilation, strict=True)]
        return whole[0] // 2, whole[1] // 2, whole[0] - whole[0] // 2, whole[1] - whole[1] // 2
    top, left = pair(padding)
    return top, left, top, left
