"""One number changed in a size that a graph writes down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jumar.base.findings import Json
from jumar.tune.graph import Graph, Node
from jumar.tune.model.errors import TuneError

_SIZES = frozenset({"size", "shape", "repeats"})
"""Names of arguments, in aten's schemas, that hold the shape of the output."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The batch of `old` rows becomes one of `new` rows."""

    old: int
    new: int

    def of(self, size: int) -> int:
        """Return a multiple of the old batch as the same multiple of the new one. Raises TuneError for another size."""
        scaled, rest = divmod(size * self.new, self.old)
        if rest:
            raise TuneError(f"{size} is no multiple of the batch of {self.old}, which therefore cannot be cut")
        return scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """A call with `size` in the place `where` of its argument `argument` (place and name); None: as it stands."""

    target: Any
    argument: tuple[int, str] | None = None
    where: int | None = None
    size: int = 0
    operator: str = ""
    """Another operator's name; empty: the node's own."""

    def filled(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the positional arguments of the call."""
        place = None if self.argument is None else self.argument[0]
        return [self._sized(value) if number == place else value for number, value in enumerate(arguments)]

    def filled_words(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of the call."""
        name = None if self.argument is None else self.argument[1]
        return {word: self._sized(value) if word == name else value for word, value in words.items()}

    def node(self, node: Node) -> Node:
        """Return the node of the call."""
        arguments: list[Json] = self.filled(node.arguments)
        return Node(
            operator=self.operator or node.operator, arguments=arguments, keywords=self.filled_words(node.keywords)
        )

    def _sized(self, sizes: Sequence[Any]) -> list[Any]:
        return [self.size if place == self.where else size for place, size in enumerate(sizes)]


def size_argument(target: Any) -> tuple[int, str] | None:
    """Return place and name of the argument of an operator that holds the output's shape; None without one."""
    for place, argument in enumerate(getattr(getattr(target, "_schema", None), "arguments", ())):
        if argument.name in _SIZES and "List[int]" in str(argument.type):
            return place, argument.name
    return None


Sizes = tuple[int, ...]


def batch_of(graph: Graph) -> int:
    """Return the first dimension of the first variable input that has one; 0 when none has."""
    shapes = (graph.inputs[place].shape for place in graph.variables)
    return next((shape[0] for shape in shapes if shape), 0)


def splits(batch: int, *, is_uneven: bool) -> list[Sizes]:
    """Return the splits of a batch, fewest pieces first: halves, thirds, … down to single rows.

    Even ones are those whose pieces are equal. With `is_uneven`, what is left over makes the last pieces one row
    smaller, so that a batch of 7 has 4+3, 3+2+2, 2+2+2+1, then single rows; numbers of pieces double from step to
    step, so that there are few.
    """
    found: list[Sizes] = []
    for pieces in _counts(batch):
        size, rest = divmod(batch, pieces)
        if not rest or is_uneven:
            found.append((size + 1,) * rest + (size,) * (pieces - rest))
    return found


def _counts(batch: int) -> list[int]:
    """Return 2, 3, 4, then the doubles, and one piece a row."""
    counts = {2, 3, *(2**power for power in range(2, batch.bit_length())), batch}
    return sorted(count for count in counts if 2 <= count <= batch)
