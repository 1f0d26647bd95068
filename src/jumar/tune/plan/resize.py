"""One number changed in a size that a graph writes down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jumar.findings import Json
from jumar.tune.errors import TuneError
from jumar.tune.graph import Node

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
