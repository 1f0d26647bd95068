"""`import torch_npu` without the vendor's package: a finder that answers with the emulator's modules."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence

import torch

VERSION = "2.13.0+jumar"
"""What `torch_npu.__version__` says."""


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves `torch_npu` and its submodules. It stands last, so an installed package wins."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == "torch_npu":
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return types.ModuleType(spec.name, "The emulated NPU, under the name of the vendor's package.")

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__.update(__version__=VERSION, npu=torch.npu)
        sys.modules["torch_npu.npu"] = torch.npu  # type: ignore[assignment]


def install() -> None:
    """Let `import torch_npu` resolve to the emulator in this process."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
