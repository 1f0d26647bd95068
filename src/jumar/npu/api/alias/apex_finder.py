"""The finder that answers `import apex` where no apex is installed. It stands last: any other apex wins."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence

_HOME = "jumar.npu.api.apex"
_BELOW = frozenset({"amp", "fp16_utils", "normalization", "optimizers", "parallel"})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        parent, _, rest = fullname.partition(".")
        if parent != "apex":
            return None
        if rest and rest not in _BELOW:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: of apex the emulated NPU has {', '.join(sorted(_BELOW))}.",
                name=fullname,
            )
        return importlib.machinery.ModuleSpec(fullname, self, is_package=not rest)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return types.ModuleType(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Let the emulator's module take the alias's place, so that its state is one."""
        home = _HOME + module.__name__.removeprefix("apex")
        sys.modules[module.__name__] = importlib.import_module(home)


def install() -> bool:
    """Let `import apex` resolve to the emulator in this process; return whether it does."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
    spec = importlib.util.find_spec("apex") if "apex" not in sys.modules else sys.modules["apex"].__spec__
    return spec is not None and (isinstance(spec.loader, _Finder) or spec.name == _HOME)
