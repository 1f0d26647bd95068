"""Convolutions, linear layers and products with a constant matrix as steps."""

from __future__ import annotations

from collections import Counter
from typing import Any

from jumar.tune.engines.kernels.recognise.arguments import pair, value_of
from jumar.tune.engines.kernels.recognise.steps import Channels, Conv, Step, Steps
from jumar.tune.graph import Graph, Node, Reference


class Context:
    """What is known of a graph while its nodes are read, in order."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps = Steps()
        self.made: dict[Reference, int] = {}
        self.uses = Counter(value for node in graph.nodes for value in node.references())
        self.uses.update(value for value in graph.outputs if value is not None)
        self.pads: dict[Reference, tuple[Reference, tuple[int, int, int, int]]] = {}
        self.several: dict[Reference, list[Channels]] = {}
        self.done: set[Reference] = set()
        self.flat: set[Reference] = set()
        self.direct: dict[Reference, Reference] = {}

    def shape(self, value: Reference) -> tuple[int, ...]:
        """Return the shape of a value; empty for what is no float32 tensor."""
        spec = self.graph.spec_of(value) if self.graph.values else None
        return spec.shape if spec is not None and spec.dtype == "float32" and all(spec.shape) else ()

    def images(self, *values: Reference) -> bool:
        """Tell whether all are images (4 dimensions) or rows (2) that are no image's pixels one after the other."""
        return all(len(self.shape(value)) in {2, 4} and value not in self.flat for value in values)

    def is_constant(self, value: Reference | None) -> bool:
        """Tell whether it is a float32 weight, or absent."""
        if value is None:
            return True
        return value < len(self.graph.inputs) and self.graph.inputs[value].constant and bool(self.shape(value))

    def add(self, step: Step) -> bool:
        """Append a step."""
        self.made[step.output] = len(self.steps.steps)
        self.steps.steps.append(step)
        return True

    def alias(self, place: Reference, value: Reference) -> bool:
        """Note that a value is another one, unchanged or in another shape."""
        self.steps.aliases[place] = self.steps.value(value)
        self.direct[place] = value
        return True

    def alone(self, value: Reference) -> Step | None:
        """Return the step that makes `value` when nothing but the node at hand reads it."""
        while self.uses[value] == 1 and value not in self.flat:
            if value in self.made:
                return self.steps.steps[self.made[value]]
            if value not in self.direct:
                return None
            value = self.direct[value]
        return None

    def moved(self, step: Step, place: Reference) -> bool:
        """The step makes the value at `place` now."""
        self.made[place] = self.made.pop(step.output)
        step.output = place
        return True


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
