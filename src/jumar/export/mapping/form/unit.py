"""`Unit`, a module with parameters, and `Slot`, one of them, in PyTorch's layout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jumar.export.mapping.transforms import Shape, Steps


@dataclass(frozen=True, slots=True)
class Slot:
    """One parameter of a unit in PyTorch's layout."""

    leaf: str
    shape: Shape
    name: str
    """Name in the file."""
    steps: Steps = ()
    """From the stored tensor to PyTorch's layout."""
    doubt: str = ""
    """Why the layout is not certain; empty where it is."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One module with parameters of its own."""

    path: tuple[str, ...]
    slots: Mapping[str, Slot]
    place: int
    """Number in the order of the file."""
    kind: str = ""
    """The module's class where the program tells it."""
    signature: frozenset[tuple[str, Shape]] = field(default=frozenset(), compare=False)

    @property
    def core(self) -> Shape:
        """The shape of its greatest parameter."""
        return max((slot.shape for slot in self.slots.values()), key=lambda shape: (len(shape), math.prod(shape)))

    @property
    def label(self) -> str:
        """The path as text."""
        return ".".join(self.path) or "the root"


def signed(unit: Unit) -> Unit:
    """Return the unit with the shapes of its parameters as its signature."""
    return replace(unit, signature=frozenset((slot.leaf, slot.shape) for slot in unit.slots.values()))
