"""What is known of a graph while its nodes are read as steps."""

from __future__ import annotations

from collections import Counter

from jumar.tune.engines.kernels.steps import Channels, Step, Steps
from jumar.tune.graph import Graph, Reference


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
