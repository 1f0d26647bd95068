"""`import torch_npu` without the vendor's package: a finder that answers with the emulator's modules."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

VERSION = "2.13.0+jumar"
"""What `torch_npu.__version__` says: the torch the emulator is verified on, and who answers."""

_NPU = "jumar.device.emulator.npu"

_HOME = {
    "torch_npu.npu": _NPU,
    "torch_npu.npu.amp": f"{_NPU}.amp",
    "torch_npu.npu.amp.autocast_mode": f"{_NPU}.amp.autocast_mode",
    "torch_npu.npu.amp.grad_scaler": f"{_NPU}.amp.grad_scaler",
    "torch_npu.npu.autocast_utils": f"{_NPU}.autocast",
    "torch_npu.npu.memory": f"{_NPU}.memory",
    "torch_npu.npu.npu_config": f"{_NPU}.config",
    "torch_npu.npu.random": f"{_NPU}.random",
    "torch_npu.npu.streams": f"{_NPU}.streams",
    "torch_npu.npu.utils": f"{_NPU}.utils",
}
"""Where the module behind each name is."""

_OWN = ("torch_npu", "torch_npu.contrib", "torch_npu.contrib.transfer_to_npu")


class _Module(types.ModuleType):
    """A module of the alias; what the emulator does not have is an AttributeError that says so."""

    def __getattr__(self, name: str) -> Any:
        child = f"{self.__name__}.{name}"
        if child in _HOME or child in _OWN:
            return importlib.import_module(child)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on the emulated NPU")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _HOME and fullname not in _OWN:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname != _OWN[-1])

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name, "The emulated NPU, under the name of the vendor's package.")

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__
        if name in _HOME:
            # NOTE: the very module object takes the alias's place, so that state set through one name is
            # seen through the other.
            sys.modules[name] = importlib.import_module(_HOME[name])
        elif name == "torch_npu":
            module.__dict__["__version__"] = VERSION
        elif name == "torch_npu.contrib.transfer_to_npu":
            from jumar.device.emulator import transfer_to_npu

            transfer_to_npu.install()


def install() -> None:
    """Let `import torch_npu` resolve to the emulator in this process.

    The emulator is up when this is called, so an installed torch_npu can no longer be: the finder
    stands first.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
