"""The finder that answers `import torch_npu` and everything below it."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from jumar.base.errors import DeviceError
from jumar.npu.api.alias.homes import (
    BOOST,
    CUSTOM,
    ROOT_MODULES,
    ROOT_NAMES,
    TRANSFER,
    home,
    is_module,
)
from jumar.npu.core.refusals import complete, refused
from jumar.soc.support.public_api import class_names, module_names, python_names

VERSION = "2.13.0+jumar"
"""What `torch_npu.__version__` says: the torch the emulator is verified on, and who answers."""


def fallback(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that answers for the vendor's `module`: what it lacks, it refuses.

    The function raises AttributeError for a name that the vendor does not have.
    """

    def missing(name: str) -> Any:
        child = f"{module}.{name}"
        if not name.startswith("__"):
            if is_module(child):
                return importlib.import_module(child)
            stand_in = refused(child)
            if stand_in is not None:
                return stand_in
        raise AttributeError(f"module {module!r} has no attribute {name!r} on the emulated NPU")

    return missing


def _root(name: str) -> Any:
    """Return a name of `torch_npu` itself: an operator before a function that does the same for the emulator."""
    if name in ROOT_NAMES:
        return getattr(importlib.import_module(ROOT_NAMES[name]), name)
    if name.startswith("_npu_"):
        boost = importlib.import_module(BOOST)
        if name in boost.ROOT_NAMES:
            return getattr(boost, name)
    custom = importlib.import_module(CUSTOM)
    if custom.is_implemented(name):
        return custom.function(name)
    for module in map(importlib.import_module, ROOT_MODULES):
        if name in module.__all__:
            return getattr(module, name)
    return custom.function(name) if name in custom.names() else fallback("torch_npu")(name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != "torch_npu":
            return None
        if not is_module(fullname):
            # NOTE: without this the search would go on in the emulator's own folders, which are the `__path__`
            # of the modules that answer, and load second copies of its files.
            raise ModuleNotFoundError(f"No module named {fullname!r} on the emulated NPU", name=fullname)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname != TRANSFER)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return types.ModuleType(spec.name, "The emulated NPU, under the name of the vendor's package.")

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__
        if name == TRANSFER:
            from jumar.npu.api.alias import transfer_to_npu

            transfer_to_npu.install()
            return
        target = home(name)
        if target is None:
            module.__dict__["__getattr__"] = _root if name == "torch_npu" else fallback(name)
            if name == "torch_npu":
                module.__dict__["__version__"] = VERSION
                _rename_where_asked()
            return
        _adopt(name, target)


_TRANSFER_SWITCH = "TORCH_TRANSFER_TO_NPU"


def _rename_where_asked() -> None:
    """Import `transfer_to_npu` where the environment asks for it, as the vendor's package does when it is loaded.

    Raises ValueError for a value that is neither 0 nor 1.
    """
    value = os.environ.get(_TRANSFER_SWITCH, "0")
    if value == "1":
        importlib.import_module(TRANSFER)
    elif value != "0":
        raise ValueError(f"{_TRANSFER_SWITCH} is {value!r}, and takes 0 or 1: set one of them, or unset it.")


def _adopt(name: str, target: str) -> None:
    """Let the emulator's module `target` answer for the vendor's module `name`.

    The very module object takes the alias's place, so that state set through one name is seen through the other.
    """
    real = importlib.import_module(target)
    real.__dict__.setdefault("__getattr__", fallback(name))
    sys.modules[name] = real
    _complete_classes(name, real)
    _adopt_shadowed(name, real)


def _complete_classes(name: str, module: types.ModuleType) -> None:
    for owner in class_names():
        parent, _, last = owner.rpartition(".")
        found = module.__dict__.get(last) if parent == name else None
        if isinstance(found, type):
            complete(owner, found)


def _adopt_shadowed(name: str, module: types.ModuleType) -> None:
    """Adopt the modules below whose name is also a function of this one: `torch_npu.contrib.function.roll`.

    A later import would bind the module over the function; one that is in `sys.modules` is not bound again.
    """
    for child in module_names() & python_names():
        parent, _, last = child.rpartition(".")
        if parent == name and last in module.__dict__:
            target = home(child)
            if target is not None and child not in sys.modules:
                _adopt(child, target)


def install() -> None:
    """Let `import torch_npu` resolve to the emulator in this process.

    The emulator is up when this is called, so an installed torch_npu can no longer be: the finder
    stands first.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def load_where_asked() -> None:
    """Import `torch_npu` where that changes the program: with the vendor's, `import torch` imports it.

    Raises DeviceError for a value of the environment that the import refuses.
    """
    if os.environ.get(_TRANSFER_SWITCH, "0") == "0":
        return
    try:
        importlib.import_module("torch_npu")
    except ValueError as error:
        raise DeviceError(str(error)) from error
