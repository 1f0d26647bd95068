"""What is wrong with the options that a TensorFlow script sets: rules JM601 and following, one file each."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jumar.base.findings import Finding
from jumar.tfadapter.checks import rules
from jumar.tfadapter.checks.subject import Given
from jumar.tfadapter.options import Setting

__all__ = ["Given", "check", "check_settings"]


def check(given: Given) -> list[Finding]:
    """Return what every rule finds, the most severe first. What is found in two calls of a function is told once."""
    found = {(one.code, one.message, one.where): one for module in _modules() for one in module.find(given)}
    return sorted(found.values(), key=lambda one: (-one.severity, one.where.path or "", one.where.line or 0, one.code))


def check_settings(
    settings: Sequence[Setting], *, soc: str | None = None, environment: Mapping[str, str] | None = None,
    paths: bool = True,
) -> list[Finding]:  # fmt: skip
    """Return what is wrong with the settings of a running program."""
    return check(Given(settings=settings, soc=soc, environment=environment or {}, paths=paths))


@cache
def _modules() -> tuple[Any, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(rules.__path__))
    return tuple(importlib.import_module(f"{rules.__name__}.{name}") for name in names)
