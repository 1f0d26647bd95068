"""The packaged tables, read once: JSON under `soc/data/`, each with its source in its header."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data"


@functools.cache
def table(name: str) -> Mapping[str, Any]:
    """Return the packaged table `name` (a file name without `.json`), parsed once a process."""
    parsed: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return parsed


@functools.cache
def kinds() -> Mapping[str, str]:
    """Return aten overload → view, implicit, explicit, leaf or no-cpu, as PyTorch registers it."""
    by_kind: Mapping[str, list[str]] = table("pytorch_operators")["kinds"]
    return {name: kind for kind, names in by_kind.items() for name in names}


@functools.cache
def overloads() -> Mapping[str, tuple[str, ...]]:
    """Return operator without overload → its overloads, out forms left out."""
    found: dict[str, list[str]] = {}
    for name in kinds():
        base, _, overload = name.partition(".")
        if not overload.endswith("out"):
            found.setdefault(base, []).append(name)
    return {base: tuple(names) for base, names in found.items()}


@functools.cache
def plain_names() -> frozenset[str]:
    """Return the public names of dtypes, constants and modules: no device has a part in them."""
    return frozenset(table("pytorch_operators")["plain"])


@functools.cache
def host_names() -> frozenset[str]:
    """Return the public names of host-only code, kept by hand."""
    return frozenset(table("host_apis")["names"])


def host_prefixes() -> tuple[str, ...]:
    """Return the prefixes of names that run on the host, or belong to another accelerator and are answered there."""
    return tuple(table("host_apis")["prefixes"])


@functools.cache
def tensor_methods() -> frozenset[str]:
    """Return the methods that, among the objects of an ordinary script, only a tensor has."""
    return frozenset(table("pytorch_operators")["methods"])
