"""The vendor's public API by name, from the packaged table `torch_npu_public_api.json`. Imports no torch."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from jumar.soc.support.data import table

Kind = Literal["python", "operator", "c++", "environment"]

_PREFIXES: tuple[tuple[str, Kind], ...] = (
    ("func: ", "operator"),
    ("torch_c_func: ", "c++"),
    ("torch_npu_public_env: ", "environment"),
)
_LOWER_CASE_CLASSES = frozenset({"annotate", "autocast", "device", "device_of", "graph", "mstx", "profile"})
_UPPER_CASE_FUNCTIONS = frozenset({"Matmul_transpose", "NpuExtension", "Profile", "Singleton"})
"""The vendor's table cannot tell a class without methods from a function; its style can, but for these."""


@dataclass(frozen=True, slots=True)
class PublicName:
    """One entry of the vendor's table."""

    name: str
    """`torch_npu.npu.Event.record`; an operator, C++ function or variable without the table's prefix."""
    kind: Kind
    signature: str
    """As the vendor's own API test writes it; "" where the table has none."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters in order, with the stars of `*args` and `**kwargs`; a method's `self` is left out."""
        names = [name for name in _parameters(self.signature) if name not in ("*", "/")]
        is_method = self.name.rpartition(".")[0] in class_names()
        return tuple(names[1:] if is_method and names[:1] and names[0] in ("self", "cls", "ctx") else names)


@functools.cache
def public_names() -> Mapping[str, PublicName]:
    """Return every entry by its name; a Python name starts with `torch_npu.`."""
    return {entry.name: entry for entry in map(_entry, table("torch_npu_public_api")["names"].items())}


@functools.cache
def python_names() -> frozenset[str]:
    """Return the names that Python code can use."""
    return frozenset(name for name, entry in public_names().items() if entry.kind == "python")


@functools.cache
def module_names() -> frozenset[str]:
    """Return the modules that the Python names are in: `torch_npu`, `torch_npu.npu.amp`.

    A name may be a module and a function of the parent at once: `torch_npu.contrib.function.roll`.
    """
    names = python_names()
    prefixes = {prefix for name in names for prefix in _prefixes(name)}
    return frozenset(
        prefix for prefix in prefixes if prefix not in names or f"{prefix}.{prefix.rpartition('.')[2]}" in names
    )


@functools.cache
def class_names() -> frozenset[str]:
    """Return the Python names that are classes, as far as the table tells."""
    owners = {name.rpartition(".")[0] for name in python_names()}
    return frozenset(
        name
        for name in python_names()
        if name.rpartition(".")[0] in module_names()
        and (_looks_like_class(name.rpartition(".")[2]) or (name in owners and name not in module_names()))
    )


@functools.cache
def members() -> Mapping[str, tuple[str, ...]]:
    """Return class → names of its methods in the table."""
    found: dict[str, list[str]] = {}
    for name in sorted(python_names()):
        owner, _, last = name.rpartition(".")
        if owner in class_names():
            found.setdefault(owner, []).append(last)
    return {owner: tuple(names) for owner, names in found.items()}


def _entry(item: tuple[str, str]) -> PublicName:
    key, signature = item
    for prefix, kind in _PREFIXES:
        if key.startswith(prefix):
            return PublicName(key.removeprefix(prefix), kind, signature)
    return PublicName(key, "python", signature)


def _prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts)))


def _looks_like_class(last: str) -> bool:
    if last in _LOWER_CASE_CLASSES:
        return True
    return last.lstrip("_")[:1].isupper() and last not in _UPPER_CASE_FUNCTIONS


def _parameters(signature: str) -> Iterator[str]:
    """Yield the names in a signature whose defaults and annotations may be any text with balanced brackets."""
    inside = signature.partition("(")[2]
    depth, part = 0, ""
    for character in inside:
        if depth == 0 and character in ",)":
            name = re.match(r"\s*(\*{0,2}\w*|/)", part)
            if name and name[1]:
                yield name[1]
            part = ""
            if character == ")":
                return
            continue
        depth += character in "([{<"
        depth -= character in ")]}>"
        part += character
