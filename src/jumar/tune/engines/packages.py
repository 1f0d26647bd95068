"""Packages that engines beside PyTorch's own need."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from jumar.tune.machine import Machine


def not_here(name: str, modules: Iterable[str], machine: Machine) -> str:
    """Return why the engine `name`, which needs these modules, cannot be used on `machine`; empty when it can."""
    if machine.device != "cpu":
        return f"{name} is used on the CPU only, and the device is {machine.device}."
    missing = [module for module in modules if find_spec(module) is None]
    return f"{' and '.join(missing)} is not installed; pip install 'jumar[tune]'." if missing else ""


def installed_version(*distributions: str) -> str:
    """Return the version of the first of these distributions that is installed; empty when none is."""
    for name in distributions:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""
