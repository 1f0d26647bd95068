"""`torch_npu.utils.collect_env`: the facts of the machine for a bug report."""

from __future__ import annotations

import os
import re
import site
import sys
import warnings
from collections import namedtuple
from pathlib import Path
from typing import Any

import torch
from torch.utils import collect_env

from jumar.npu.api.alias.finder import VERSION

__all__ = [
    "SystemEnv",
    "check_directory_path_readable",
    "check_path_owner_consistent",
    "get_cann_version",
    "get_env_info",
    "get_pretty_env_info",
    "get_torch_npu_install_path",
    "get_torch_npu_version",
    "main",
    "pretty_str",
]

plain: Any = collect_env
"""PyTorch's own collection."""

_LABELS = {
    "torch_version": "PyTorch version",
    "torch_npu_version": "Torch-npu version",
    "is_debug_build": "Is debug build",
    "os": "OS",
    "gcc_version": "GCC version",
    "clang_version": "Clang version",
    "cmake_version": "CMake version",
    "libc_version": "Libc version",
    "python_version": "Python version",
    "python_platform": "Python platform",
    "is_xnnpack_available": "Is XNNPACK available",
    "cpu_info": "CPU",
    "cann_version": "CANN",
    "pip_packages": "Versions of relevant libraries",
    "conda_packages": "Conda packages",
}

SystemEnv = namedtuple(
    "SystemEnv",
    [
        "torch_version",
        "torch_npu_version",
        "is_debug_build",
        "gcc_version",
        "clang_version",
        "cmake_version",
        "os",
        "libc_version",
        "python_version",
        "python_platform",
        "pip_version",
        "pip_packages",
        "conda_packages",
        "caching_allocator_config",
        "is_xnnpack_available",
        "cpu_info",
        "cann_version",
    ],
)


def get_torch_npu_install_path() -> str:
    """Return the folder that packages are installed in."""
    return next(iter(site.getsitepackages()), "")


def get_torch_npu_version() -> str:
    """Return the version the emulator answers with."""
    return VERSION


def check_directory_path_readable(path: str) -> None:
    """Raise RuntimeError for a path that is missing, a symbolic link, or not readable."""
    if not Path(path).exists():
        raise RuntimeError(f"The path does not exist: {path}")
    if Path(path).is_symlink():
        raise RuntimeError(f"Invalid path is a symbolic link: {path}")
    if not os.access(path, os.R_OK):
        raise RuntimeError(f"The path permission check failed: {path}")


def check_path_owner_consistent(path: str) -> None:
    """Raise RuntimeError for a path that is missing; nothing else is checked any more, as the vendor's says too."""
    warnings.warn(
        "check_path_owner_consistent(path) is deprecated and checks no owner; use check_directory_path_readable(path).",
        FutureWarning,
        stacklevel=2,
    )
    if not Path(path).exists():
        raise RuntimeError(f"The path does not exist: {path}")


def get_cann_version() -> str:
    """Return the version of the CANN installed at ASCEND_HOME_PATH; `not known` where there is none."""
    home = os.environ.get("ASCEND_HOME_PATH")
    if not home:
        return "not known"
    for file in sorted(Path(home).resolve().rglob("ascend_*_install.info")):
        found = re.search(r"^version\s*=\s*(\S+)", file.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return found[1]
    return "not known"


def get_env_info() -> SystemEnv:
    """Return what can be found out; some programs are called for it, which takes seconds."""
    run = plain.run
    pip_version, pip_packages = plain.get_pip_packages(run)
    version = sys.version.replace("\n", " ")
    return SystemEnv(
        torch_version=torch.__version__,
        torch_npu_version=get_torch_npu_version(),
        is_debug_build=str(torch.version.debug),
        gcc_version=plain.get_gcc_version(run),
        clang_version=plain.get_clang_version(run),
        cmake_version=plain.get_cmake_version(run),
        os=plain.get_os(run),
        libc_version=plain.get_libc_version(),
        python_version=f"{version} ({sys.maxsize.bit_length() + 1}-bit runtime)",
        python_platform=plain.get_python_platform(),
        pip_version=pip_version,
        pip_packages=pip_packages,
        conda_packages=plain.get_conda_packages(run),
        caching_allocator_config=plain.get_cachingallocator_config(),
        is_xnnpack_available=plain.is_xnnpack_available(),
        cpu_info=plain.get_cpu_info(run),
        cann_version=get_cann_version(),
    )


def pretty_str(envinfo: Any) -> str:
    """Return the report as text, one fact a line."""
    words = {True: "Yes", False: "No", None: "Could not collect", "": "No relevant packages"}
    facts = envinfo._asdict()
    shown = {name: words.get(value, value) if _is_word(value) else str(value) for name, value in facts.items()}
    return "\n".join(f"{label}: {shown[name]}" for name, label in _LABELS.items())


def _is_word(value: Any) -> bool:
    return value is None or isinstance(value, (bool, str))


def get_pretty_env_info() -> str:
    """Return the report on this machine as text."""
    return pretty_str(get_env_info())


def main() -> None:
    """Write the report to the standard output."""
    sys.stdout.write(f"Collecting environment information...\n{get_pretty_env_info()}\n")
