"""Refuse custom CUDA code: extensions built from `.cu` files and Triton kernels.

Both live in modules that a script may or may not import, and that are slow to import, so they are
changed right after their import instead of being imported here.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

from jumar.device.cuda_stand_in.refused import refuse

_INSTEAD = "give the script's pure PyTorch path for this run"


def _refuse_extensions(module: ModuleType) -> None:
    """Change `torch.utils.cpp_extension`: C++ extensions for the CPU still build."""
    cpp: Any = module
    load, load_inline = cpp.load, cpp.load_inline

    def load_without_cuda(name: str, sources: Any, *args: Any, **kwargs: Any) -> Any:
        files = [sources] if isinstance(sources, str) else list(sources)
        if kwargs.get("with_cuda") or any(str(file).endswith((".cu", ".cuh")) for file in files):
            refuse(f"the CUDA extension {name!r}", _INSTEAD)
        return load(name, sources, *args, **kwargs)

    def load_inline_without_cuda(name: str, *args: Any, **kwargs: Any) -> Any:
        cuda_sources = args[1] if len(args) > 1 else kwargs.get("cuda_sources")
        if cuda_sources or kwargs.get("with_cuda"):
            refuse(f"the CUDA extension {name!r}", _INSTEAD)
        return load_inline(name, *args, **kwargs)

    def cuda_extension(name: str, *_args: Any, **_kwargs: Any) -> NoReturn:
        refuse(f"the CUDA extension {name!r}", _INSTEAD)

    cpp.load, cpp.load_inline, cpp.CUDAExtension = load_without_cuda, load_inline_without_cuda, cuda_extension


def _refuse_kernels(module: ModuleType) -> None:
    """Change `triton.runtime.jit`: kernels can be defined, not launched."""

    def run(self: Any, *_args: Any, **_kwargs: Any) -> NoReturn:
        refuse(f"the Triton kernel {getattr(self, '__name__', 'of the script')!r}", _INSTEAD)

    module.JITFunction.run = run


_AFTER_IMPORT: dict[str, Callable[[ModuleType], None]] = {
    "torch.utils.cpp_extension": _refuse_extensions,
    "triton.runtime.jit": _refuse_kernels,
}


class _Loader(importlib.abc.Loader):
    """Runs another loader, then changes the module."""

    def __init__(self, loader: Any, change: Callable[[ModuleType], None]) -> None:
        self._loader, self._change = loader, change

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._change(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of `_AFTER_IMPORT` where the finders behind it find them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        change = _AFTER_IMPORT.get(fullname)
        if change is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, change)
                return spec
        return None


def install() -> None:
    """Change the modules that are imported already, and watch for the others."""
    for name, change in _AFTER_IMPORT.items():
        if name in sys.modules:
            change(sys.modules[name])
    sys.meta_path.insert(0, _Finder())
