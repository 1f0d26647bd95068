"""Count which names of torch_npu work on the emulator: `entries` asks the running emulator for each."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from jumar.npu.api.alias.homes import CUSTOM, ROOT_MODULES, is_module
from jumar.npu.core.nearest import nearest_by_hand
from jumar.npu.core.refusals import is_refused
from jumar.soc.support.data import table
from jumar.soc.support.public_api import PublicName, public_names

_GROUPS = (
    ("contrib", r"torch_npu\.contrib"),
    ("optim", r"torch_npu\.optim"),
    ("profiler", r"torch_npu\.(profiler|utils\.profiler)"),
    ("distributed", r"torch_npu\.distributed"),
    ("testing", r"torch_npu\.testing"),
    ("serialization", r".*(serialization|save_async|torch_npu\.multiprocessing)"),
    ("utils", r"torch_npu\.(utils|jit)|torch_npu\.HiFloat8Tensor|torch_npu\.matmul_checksum"),
    ("random", r".*(seed|rng|\.random\.)"),
    ("amp", r".*(\.amp\.|autocast|overflow|inf_nan|get_amp)"),
    ("graphs", r".*(raph|super_kernel|aclnn)"),
    ("markers", r".*mstx"),
    ("storages", r".*Storage$"),
    (
        "settings and dumps",
        r".*(npu_config|_option|_aoe|_dump|compile|mm_bmm|determin|compatible|_limit|timeout|debug_mode)",
    ),
    ("streams and events", r".*([sS]tream|Event)"),
    ("memory", r".*([mM]em|cach|llocator|blas)"),
    ("device", r"torch_npu\.npu\."),
    ("custom operators", r"torch_npu\.\w+$"),
)
"""Group -> pattern from the start of a Python name; the first that matches decides."""

_OTHER_GROUPS = {
    "operator": "adapter operators",
    "c++": "C++ interface",
    "environment": "environment variables",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One name and whether it works here."""

    name: str
    group: str
    works: bool
    nearest: str = ""
    """For a refused name, what to use in its place where that is written down."""


def entries() -> list[Entry]:
    """Return every entry of the vendor's table that code can call, in the table's order.

    The C++ interface and the environment variables are not among them: see `unreachable`.
    """
    return [
        Entry(entry.name, group(entry), works(entry.name), _advice(entry.name))
        for entry in public_names().values()
        if entry.kind in ("python", "operator")
    ]


def custom_operators() -> list[Entry]:
    """Return every operator of the namespace `npu` in the vendor's operator library."""
    names = sorted({*table("npu_operators")["custom"], *table("npu_operators")["adapter_custom"]})
    bases = sorted({name.partition(".")[0] for name in names})
    return [
        Entry(
            f"torch.ops.npu.{name}", "torch.ops.npu", _implemented(name), "" if _implemented(name) else _instead(name)
        )
        for name in bases
    ]


def unreachable() -> dict[str, int]:
    """Return how many entries of the table no Python code can reach, by group."""
    kinds = [entry.kind for entry in public_names().values()]
    return {_OTHER_GROUPS[kind]: kinds.count(kind) for kind in ("c++", "environment")}


def group(entry: PublicName) -> str:
    """Return the group that an entry is counted in."""
    if entry.kind != "python":
        return _OTHER_GROUPS[entry.kind]
    return next(name for name, pattern in _GROUPS if re.match(pattern, entry.name))


def resolve(name: str) -> Any:
    """Return what a public name means here. Raises AttributeError or ModuleNotFoundError when it means nothing."""
    if public_names()[name].kind == "operator":
        return _operator(name)
    found = None
    for parts in _splits(name):
        module = ".".join(parts[0])
        if is_module(module):
            found = importlib.import_module(module)
            for part in parts[1]:
                found = getattr(found, part)
            return found
    return found


def works(name: str) -> bool:
    """Return whether a public name is emulated, which is more than that it resolves."""
    entry = public_names().get(name)
    if entry is None:
        return False
    last = name.rpartition(".")[2]
    if entry.kind == "operator":
        base = name.partition(".")[0]
        if hasattr(torch.ops.npu, base):
            return _implemented(base) and _has_overload(name)
        return hasattr(torch.ops.aten, base)
    found = resolve(name)
    if name == f"torch_npu.{last}" and last in importlib.import_module(CUSTOM).names():
        return _implemented(last) or any(last in importlib.import_module(module).__all__ for module in ROOT_MODULES)
    return not is_refused(found)


def _operator(name: str) -> Any:
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.npu, base) if hasattr(torch.ops.npu, base) else getattr(torch.ops.aten, base)
    return getattr(packet, overload) if overload else packet


def _has_overload(name: str) -> bool:
    base, _, overload = name.partition(".")
    return not overload or overload in getattr(torch.ops.npu, base).overloads()


def _splits(name: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the ways to cut a name into a module and attributes of it, the longest module first."""
    parts = name.split(".")
    return ((parts[:length], parts[length:]) for length in range(len(parts) - 1, 0, -1))


def _implemented(name: str) -> bool:
    return bool(importlib.import_module(CUSTOM).is_implemented(name))


def _advice(name: str) -> str:
    if works(name):
        return ""
    last = name.removeprefix("torch_npu.").partition(".")[0]
    is_operator = last in importlib.import_module(CUSTOM).names()
    return nearest_by_hand(name) or (_instead(last) if is_operator else "")


def _instead(operator: str) -> str:
    """Return what the refusal of a custom operator says to do."""
    return str(importlib.import_module("jumar.npu.ops.mechanism.implement").nearest(operator))
