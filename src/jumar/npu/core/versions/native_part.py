"""The extension `native/backend.cpp`, for a PyTorch that lets no back end be written in Python. Imports torch."""

from __future__ import annotations

import functools
import importlib.util
import sysconfig
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any

import torch

from jumar.base.errors import DeviceError
from jumar.base.native import CompilerError, compiled

_SOURCE = Path(__file__).parent / "native" / "backend.cpp"
_TORCH = Path(torch.__file__).parent
_ABI = ("_PYBIND11_COMPILER_TYPE", "_PYBIND11_STDLIB", "_PYBIND11_BUILD_ABI")
"""What libraries of pybind11 must have in common to know each other's types. Newer versions have no such names."""


@functools.cache
def extension() -> Any:
    """Return the extension module, compiled now (a minute) or taken from the cache.

    Raises DeviceError when it cannot be compiled here.
    """
    try:
        path = compiled(_SOURCE, flags=_flags())
    except (CompilerError, OSError) as error:
        raise DeviceError(
            f"the emulated NPU is compiled for torch {torch.__version__}, which takes no device backend written in "
            f"Python, and that failed: {error} Or use torch 2.13, which needs no compiler."
        ) from error
    loader = ExtensionFileLoader("backend", str(path))
    spec = importlib.util.spec_from_loader("backend", loader)
    if spec is None:
        raise DeviceError(f"{path} is no Python module. Delete it, so that it is compiled again.")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _flags() -> list[str]:
    places = [_TORCH / "include", _TORCH / "include/torch/csrc/api/include", sysconfig.get_paths()["include"]]
    flags = [f"-I{place}" for place in places]
    flags += [f'-D{name[1:]}="{getattr(torch._C, name)}"' for name in _ABI if hasattr(torch._C, name)]
    flags += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    flags += [f"-L{_TORCH / 'lib'}", "-Wl,--no-as-needed", "-ltorch_python", "-ltorch_cpu", "-lc10"]
    version = "".join(letter if letter.isalnum() else "_" for letter in torch.__version__)
    return [*flags, "-O1", "-w", f"-DBUILT_FOR_{version}"]
