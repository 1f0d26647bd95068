"""Names of modules, operators and parameters that belong together in two runs: `ModuleMap`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jumar.comparison.model.correspondence import RenamedModules
from jumar.comparison.model.renames import Renames
from jumar.operators.layers import PARAMETERS
from jumar.recording.schema import CallRow

if TYPE_CHECKING:
    from jumar.comparison.align.trees import Node
    from jumar.comparison.model.frameworks.foreign import Foreign

ALONE = " (target only)"
"""Marks the place of a module that only the target has, so that it does not take the place of another."""


@dataclass(slots=True)
class ModuleMap:
    """Places of the modules of both sides: equal places belong together."""

    places: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: ({}, {}))
    """Plain path to place, for the reference and for the target; places are named by the reference's paths."""
    renamed: list[RenamedModules] = field(default_factory=list)
    renames: Renames = field(default_factory=Renames)

    def names(self, side: int) -> SideNames:
        """Return how the names of a side (0 reference, 1 target) are read."""
        return SideNames(self, side)

    def same(self, reference: Node, target: Node) -> None:
        """Take two modules for one."""
        place = self.places[0].setdefault(reference.path, reference.path)
        self.places[1][target.path] = place

    def alone(self, side: int, node: Node, place: str = "") -> None:
        """The other side has neither this module nor a module below it."""
        place = place or f"{node.path}{ALONE if side else ''}"
        self.places[side][node.path] = place
        for child in node.children.values():
            self.alone(side, child, f"{place}.{child.name}")


@dataclass(frozen=True, slots=True)
class SideNames:
    """How the names of one side are read (see `jumar.comparison.model.calls.Names`)."""

    modules: ModuleMap
    side: int

    def place(self, path: str) -> tuple[str, str]:
        """Return (path in the reference's naming, place); a path not seen before is looked for under its own name."""
        place = self.modules.places[self.side].get(path)
        if place is None:
            return path, path
        return (path if self.side == 0 or ALONE in place else place), place

    def operator(self, name: str) -> str:
        """Return the reference's name of an operator."""
        return self.modules.renames.operator(name) if self.side else name

    def parameter(self, path: str, name: str) -> str:
        """Return the reference's name of a parameter, PyTorch's where a framework has another for it."""
        del path
        name = self.modules.renames.parameter(name) if self.side else name
        return PARAMETERS.get(name, name)


def match_modules(
    reference: Sequence[CallRow],
    target: Sequence[CallRow],
    renames: Renames | None = None,
    frameworks: Foreign | None = None,
) -> ModuleMap:
    """Return the map of the modules of two runs, from the rows of one step of each.

    `frameworks` is given for runs of two: their modules are told by the classes of layers, not by operators.
    """
    found = ModuleMap(renames=renames or Renames())
    if not found.renames.modules and {row.module_path for row in reference} == {row.module_path for row in target}:
        return found
    from jumar.comparison.align.module_trees import match_trees  # most runs name their modules alike

    match_trees(found, reference, target, frameworks)
    return found
