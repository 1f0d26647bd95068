"""Tells which names exist in torch_npu and PyTorch, from tables of the packaged release."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from jumar.convert.model import api_map
from jumar.convert.model.api_map import packaged
from jumar.convert.model.signatures import Signature, read_schema, read_signature
from jumar.soc.support.data import table
from jumar.soc.support.public_api import class_names, module_names, public_names, python_names
from jumar.soc.support.releases import canonical, lacks, spans_of

_VENDOR_NPU = "torch_npu.npu"
_DOCUMENTED = frozenset({"torch_npu.npu.default_generators", "torch_npu.contrib.transfer_to_npu"})
"""Names torch_npu documents but leaves out of its public schema (migration manual of torch_npu)."""


def exists(name: str, release: str) -> bool:
    """Tell whether a qualified name exists in a release. A member of something that is no module counts as existing."""
    name = canonical(name)
    if spans_of(name):
        return not lacks(name, release)
    last = name.rpartition(".")[2]
    if last.startswith("__"):
        return True
    if name.startswith("torch_npu."):
        return _vendor_has(name)
    owner = _torch_owner(name)
    return owner is None or name[len(owner) + 1 :].partition(".")[0] in _torch_modules()[owner]


def elsewhere(name: str) -> str:
    """Return the releases that have a name which not all have, `2.1-2.12`; "" for others."""
    return spans_of(name)


def signature(name: str) -> Signature | None:
    """Return what a function or class takes, None where the tables do not tell."""
    name = canonical(name)
    entry = public_names().get(name)
    if entry is not None and entry.kind == "python":
        is_method = name.rpartition(".")[0] in class_names()
        plain = entry.signature and not (entry.signature.startswith("()") and name in class_names())
        return read_signature(entry.signature, method=is_method) if plain else None
    overloads = _operators().get(name, ())
    if overloads:
        return overloads[0] if len(overloads) == 1 else None
    text = packaged("torch_names")["signatures"].get(name)
    return read_signature(text) if text else None


@functools.cache
def _operators() -> Mapping[str, list[Signature]]:
    """Return `torch_npu.npu_x` -> the signatures of its overloads, for the vendor's custom operators."""
    found: dict[str, list[Signature]] = {}
    for schema in table("npu_custom_operators")["schemas"]:
        name = re.match(r"\w+", schema)
        if name is not None:
            found.setdefault(f"torch_npu.{name[0]}", []).append(read_schema(schema))
    return found


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
