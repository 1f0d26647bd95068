"""`Place`: where a statement stands."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jumar.tfadapter.source.expressions.values import Values


@dataclass(frozen=True)
class Place:
    """What names mean at a statement, the function around it, and the blocks around it (see `Setting.branch`)."""

    values: Values
    scope: str = ""
    branch: tuple[tuple[int, int], ...] = ()

    def within(self, line: int, arm: int = 0) -> Place:
        """Return the place inside a block that may run or not."""
        return replace(self, branch=(*self.branch, (line, arm)))

    def knowing(self, values: Values) -> Place:
        """Return the same place with other values of names."""
        return replace(self, values=values)
