"""The finder that answers `import apex` where no apex is installed. It stands last: any other apex wins."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence

HOME = "jumar.amp.apex"
"""Package whose modules answer, unless another room gives one of its own."""

_BELOW = frozenset({"amp", "fp16_utils", "normalization", "optimizers", "parallel"})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self) -> None:
        self.home, self.owner = HOME, "Jumar"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        parent, _, rest = fullname.partition(".")
        if parent != "apex":
            return None
        if rest and rest not in _BELOW:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: of apex {self.owner} has {', '.join(sorted(_BELOW))}.", name=fullname
            )
        return importlib.machinery.ModuleSpec(fullname, self, is_package=not rest)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return types.ModuleType(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Let the home's module take the alias's place, so that its state is one."""
        sys.modules[module.__name__] = importlib.import_module(self.home + module.__name__.removeprefix("apex"))


_FINDER = _Finder()


def install() -> bool:
    """Let `import apex` resolve to `jumar.amp` in this process; return whether it does.

    An apex that is installed, a module of the program of that name, or one that was imported before wins.
    """
    return install_from(_FINDER.home, _FINDER.owner)


def install_from(home: str, owner: str) -> bool:
    """Let the modules of the package `home` answer; `owner` is named when one of apex's is not there."""
    changed, _FINDER.home, _FINDER.owner = home != _FINDER.home, home, owner
    if changed:
        _forget()
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)
    spec = importlib.util.find_spec("apex") if "apex" not in sys.modules else sys.modules["apex"].__spec__
    return spec is not None and (spec.loader is _FINDER or spec.name == home)


def uninstall() -> None:
    """Let `import apex` fail again where no apex is installed; modules that were imported stay as they are."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
    _FINDER.home, _FINDER.owner = HOME, "Jumar"
    _forget()


def _forget() -> None:
    """Take the aliases of Jumar's own modules away, so that the next import finds them anew."""
    for name in [name for name in sys.modules if name == "apex" or name.startswith("apex.")]:
        spec = sys.modules[name].__spec__
        if spec is not None and (spec.loader is _FINDER or spec.name.startswith("jumar.")):
            del sys.modules[name]
