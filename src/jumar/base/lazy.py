"""What is loaded when first used: names of a package (`loader`, `directory`), and pages of results (`Shown`).

`after_import` changes modules of others right after their import. `spec_behind` finds a module for a finder that
changes what others find.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from jumar.base.process.collector import collector_at_rest


def directory(package: str, names: Sequence[str]) -> Callable[[], list[str]]:
    """Return the `__dir__` of `package`: its public names, also those that are not loaded yet, and what it holds."""
    return lambda: sorted({*names, *vars(sys.modules[package])})


def loader(package: str, names: Sequence[str], homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of `package`, whose public names are `names`.

    `homes` maps each name that is loaded later to the module that defines it. The function returned
    raises AttributeError, with the names there are, for any other.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(names)}")
        with collector_at_rest():
            home = importlib.import_module(homes[name])
        return getattr(home, name)

    return load


def spec_behind(
    finder: object, name: str, path: Sequence[str] | None, target: ModuleType | None = None
) -> ModuleSpec | None:
    """Return the spec that the finders behind `finder` in `sys.meta_path` have of a module; None where they have none.

    A finder must not ask those before it: two that asked each other would not end.
    """
    for other in sys.meta_path[sys.meta_path.index(finder) + 1 :]:  # type: ignore[arg-type]
        found = other.find_spec(name, path, target) if hasattr(other, "find_spec") else None
        if found is not None:
            return found
    return None


class _ChangingLoader(Loader):
    """Runs another loader, then changes the module."""

    def __init__(self, loader: Any, change: Callable[[ModuleType], None]) -> None:
        self._loader, self._change = loader, change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._change(module)


class _ChangingFinder(MetaPathFinder):
    """Finds the modules that are to be changed where the finders behind it do."""

    def __init__(self, changes: Mapping[str, Callable[[ModuleType], None]]) -> None:
        self._changes = changes

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = self._changes.get(fullname)
        if change is None:
            return None
        spec = spec_behind(self, fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _ChangingLoader(spec.loader, change)
        return spec


def after_import(changes: Mapping[str, Callable[[ModuleType], None]]) -> None:
    """Change modules by name: those that are imported already now, the others right after their import.

    For modules that a program may or may not import, and that are slow to import.
    """
    for name, change in changes.items():
        if name in sys.modules:
            change(sys.modules[name])
    sys.meta_path.insert(0, _ChangingFinder(changes))


class Shown:
    """A result that a notebook shows as its page. The room that makes pages is imported when one is shown."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the page as HTML; notebooks ask for it."""
        text: str = importlib.import_module("jumar.show.notebook").html_of(self)
        return text
