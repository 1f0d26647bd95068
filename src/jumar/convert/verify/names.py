"""Tells which names exist in torch_npu and PyTorch, from tables of the packaged release."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from jumar.convert.model import api_map
from jumar.convert.model.api_map import packaged
from jumar.convert.verify.signatures import Signature, read_signature
from jumar.soc.support.data import table
from jumar.soc.support.public_api import class_names, module_names, public_names, python_names

_NPU = "torch.npu"
_VENDOR_NPU = "torch_npu.npu"
_DOCUMENTED = frozenset({"torch_npu.npu.default_generators", "torch_npu.contrib.transfer_to_npu"})
"""Names torch_npu documents but leaves out of its public schema (migration manual of torch_npu)."""

_SCHEMA = re.compile(r"(\w+)(?:\.\w+)?\((.*)\)\s*->", re.DOTALL)


def release() -> str:
    """Return the release of PyTorch and torch_npu that the tables are of."""
    return str(api_map.table()["torch_npu"])


def canonical(name: str) -> str:
    """Return the vendor's spelling of a name: `torch.npu` is `torch_npu.npu`."""
    return f"{_VENDOR_NPU}{name[len(_NPU) :]}" if name == _NPU or name.startswith(f"{_NPU}.") else name


def exists(name: str) -> bool:
    """Tell whether a qualified name exists. A member of something that is no module counts as existing."""
    name = canonical(name)
    last = name.rpartition(".")[2]
    if last.startswith("__"):
        return True
    if name.startswith("torch_npu."):
        return _vendor_has(name)
    owner = _torch_owner(name)
    return owner is None or name[len(owner) + 1 :].partition(".")[0] in _torch_modules()[owner]


def signature(name: str) -> Signature | None:
    """Return what a function or class takes, None where the tables do not tell."""
    name = canonical(name)
    entry = public_names().get(name)
    if entry is not None and entry.kind == "python":
        is_method = name.rpartition(".")[0] in class_names()
        plain = entry.signature and not (entry.signature.startswith("()") and name in class_names())
        return read_signature(entry.signature, method=is_method) if plain else None
    text = packaged("torch_names")["signatures"].get(name) or _operators().get(name, [""])[0]
    return read_signature(text) if text and len(_operators().get(name, ())) < 2 else None


@functools.cache
def _operators() -> Mapping[str, list[str]]:
    """Return `torch_npu.npu_x` -> the signatures of its overloads, for the vendor's custom operators."""
    found: dict[str, list[str]] = {}
    for schema in table("npu_custom_operators")["schemas"]:
        match = _SCHEMA.match(schema)
        if match is not None:
            parts = (part.partition("=") for part in _split(match[2]))
            names = [left.split()[-1] + ("=..." if equal else "") for left, equal, _ in parts if left.split()]
            found.setdefault(f"torch_npu.{match[1]}", []).append(f"({', '.join(names)})")
    return found


def _split(parameters: str) -> list[str]:
    """Split a schema's parameters at its commas; those inside of brackets (`int[2]`, `[1, 1]`) do not count."""
    return re.split(r",(?![^\[(]*[\])])", parameters)


@functools.cache
def _vendor_names() -> frozenset[str]:
    names = table("npu_names")
    data = api_map.table()
    of_npu = [*names["torch_npu_npu"], *data["npu_only"], *(row["npu"] for row in data["names"] if row["npu"])]
    of_npu += [f"{module}.{member}" for module, members in data["npu_submodules"].items() for member in members]
    operators = [
        f"torch_npu.{name.partition('.')[0]}" for name, entry in public_names().items() if entry.kind == "operator"
    ]
    found = {
        *python_names(),
        *_DOCUMENTED,
        *names["torch_npu"],
        *operators,
        *_operators(),
        *(f"{_VENDOR_NPU}.{name}" for name in of_npu),
    }
    return frozenset(found | {prefix for name in found for prefix in _prefixes(name)})


@functools.cache
def _vendor_modules() -> frozenset[str]:
    submodules = (f"{_VENDOR_NPU}.{name}" for name in api_map.table()["npu_submodules"])
    return frozenset({*module_names(), *submodules, "torch_npu", _VENDOR_NPU})


def _vendor_has(name: str) -> bool:
    """Follow the name from its root. Whatever stands below the first name that is no module counts as existing."""
    parts = name.split(".")
    for length in range(2, len(parts) + 1):
        prefix = ".".join(parts[:length])
        if prefix not in _vendor_names():
            return False
        if prefix not in _vendor_modules():
            return True
    return True


@functools.cache
def _torch_modules() -> Mapping[str, frozenset[str]]:
    return {module: frozenset(names.split()) for module, names in packaged("torch_names")["modules"].items()}


def _torch_owner(name: str) -> str | None:
    """Return the longest listed module that `name` is in, None for names outside of PyTorch."""
    found = [prefix for prefix in _prefixes(name) if prefix in _torch_modules()]
    return found[-1] if found else None


def _prefixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]
