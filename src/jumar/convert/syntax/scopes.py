"""Python's scopes over a LibCST tree: names and their bindings.

Resolution does not follow the flow of control. A name that is bound more than once in its scope has
several candidates; it counts as resolved only when all of them agree. `x = None` beside an import
(the usual fallback of an optional import) is no rival to it.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field
from typing import Literal

import libcst as cst

ScopeKind = Literal["module", "function", "class", "comprehension"]
BindingKind = Literal["import", "reexport", "assign", "parameter", "definition", "other"]

_BUILTINS = frozenset(dir(builtins))
_MAX_ALIAS_DEPTH = 8


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """One place that binds a name: an import (with the name it stands for), an assignment, and so on.

    A `reexport` is an import from another file of the project that gives something a name: that file is
    converted so that the name lives on, so the import itself stays.
    """

    kind: BindingKind
    node: cst.CSTNode
    qualified: str | None = None
    value: cst.BaseExpression | None = None


@dataclass(slots=True, eq=False)
class Scope:
    """A scope with its bindings; `owner` is the function, class, lambda or comprehension it belongs to."""

    kind: ScopeKind
    parent: Scope | None
    owner: cst.CSTNode
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    forwarded: dict[str, Scope] = field(default_factory=dict)
    """Names declared `global` or `nonlocal` here, and where they live."""
    stars: list[str] = field(default_factory=list)
    """Modules whose names are imported with `*`."""
    star_names: dict[str, str] = field(default_factory=dict)
    """Names that star imports from the project bring, with what they stand for."""
    _cache: dict[str, tuple[str | None, ...]] = field(default_factory=dict)

    def bind(self, name: str, binding: Binding) -> None:
        """Add a binding of `name`, in the scope a `global` or `nonlocal` statement sends it to."""
        self.forwarded.get(name, self).bindings.setdefault(name, []).append(binding)

    def home(self, name: str) -> Scope | None:
        """Return the scope whose bindings `name` refers to when it is read here, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.forwarded:
                return scope.forwarded[name]
            if name in scope.bindings and (scope is self or scope.kind != "class"):
                return scope
            scope = scope.parent
        return None

    def module(self) -> Scope:
        """Return the module's scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def bindings_of(self, name: str) -> list[Binding]:
        """Return every binding that `name`, read here, may refer to."""
        home = self.home(name)
        return home.bindings.get(name, []) if home is not None else []

    def candidates(self, name: str, depth: int = 0) -> tuple[str | None, ...]:
        """Return the qualified names `name` may stand for; None stands for "something else"."""
        if name in self._cache:
            return self._cache[name]
        found = self._candidates(name, depth)
        if depth == 0:
            self._cache[name] = found
        return found

    def _candidates(self, name: str, depth: int) -> tuple[str | None, ...]:
        home = self.home(name)
        if home is None:
            if name in _BUILTINS:
                return (f"builtins.{name}",)
            return self.module().by_star(name)
        if depth > _MAX_ALIAS_DEPTH:
            return (None,)
        found: list[str | None] = []
        for binding in home.bindings.get(name, []):
            if binding.value is not None and is_named(binding.value, "None") and len(home.bindings[name]) > 1:
                continue
            found.extend(_targets(binding, home, name, depth))
        return tuple(dict.fromkeys(found)) or (None,)

    def by_star(self, name: str) -> tuple[str | None, ...]:
        """Return what a name that nothing binds may stand for in a module with star imports."""
        if name in self.star_names:
            return (self.star_names[name],)
        return (*(f"{star}.{name}" for star in self.stars), None)


def _targets(binding: Binding, home: Scope, name: str, depth: int) -> tuple[str | None, ...]:
    if binding.kind in ("import", "reexport"):
        return (binding.qualified,)
    if binding.kind != "assign" or binding.value is None:
        return (None,)
    dotted = dotted_name(binding.value)
    if dotted is None:
        return (None,)
    root, _, rest = dotted.partition(".")
    if root == name:
        return (None,)
    return tuple(
        None if base is None or base.startswith("builtins.") else f"{base}.{rest}" if rest else base
        for base in home.candidates(root, depth + 1)
    )


def is_named(node: cst.CSTNode, *names: str) -> bool:
    """Tell whether a node is one of these bare names: a variable, or a constant such as `True` and `None`."""
    return isinstance(node, cst.Name) and node.value in names


def last_name(node: cst.CSTNode) -> str:
    """Return `loader` for `loader` and `self.loader`, empty for what has no name."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def dotted_name(node: cst.CSTNode) -> str | None:
    """Return `a.b.c` for a chain of attributes on a name, else None."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))
