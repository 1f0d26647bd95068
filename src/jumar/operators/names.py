"""Names of operators: `Name` is the parsed form of `aten::add_.Tensor`.

base_name        add_     without namespace and overload
short_name       add_     the same; another namespace than aten stays in front: `torchvision::nms`
functional_name  add      without the underscore of an in-place operator; `__iand__` becomes `__and__`
canonical_name   add      one name for the variants of one calculation: `softmax` of `_softmax`
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

from jumar.operators.data import judged, torch_names

MINDSPORE = "ms::"
"""In front of the names of MindSpore's operators in recordings: `ms::MatMul`."""
TENSORFLOW = "tf::"
"""In front of the names of TensorFlow's operators in recordings: `tf::BatchMatMulV2`."""
FRAMEWORKS = {MINDSPORE: "mindspore", TENSORFLOW: "tensorflow"}
"""The framework whose operators have a prefix, other than PyTorch."""

_IN_PLACE_DUNDER = re.compile(r"__i(and|or|xor|lshift|rshift|add|sub|mul|div)__")
_FUSED = ("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad")


class Name(NamedTuple):
    """The parts of an operator's name. `namespace` and `overload` are empty where the name does not have them."""

    namespace: str
    base: str
    overload: str


@lru_cache(maxsize=8192)
def parse(name: str) -> Name:
    """Return the parts of `name`; of another framework's (`ms::MatMul`, `tf::MatMul`) PyTorch's base name, `mm`."""
    framework = framework_of(name)
    if framework:
        name = torch_names(framework).get(name.partition("::")[2], name)
    namespace, _, rest = name.rpartition("::")
    base, _, overload = rest.partition(".")
    return Name(namespace, base, overload)


def framework_of(name: str) -> str:
    """Return `mindspore` of `ms::MatMul`, `tensorflow` of `tf::MatMul`; empty for operators of PyTorch and others."""
    return FRAMEWORKS.get(name[:4], "") if name[2:4] == "::" else ""


def base_name(name: str) -> str:
    """Return `add_` of `aten::add_.Tensor`."""
    return parse(name).base


def short_name(name: str) -> str:
    """Return `add_` of `aten::add_.Tensor`; a namespace other than aten stays: `torchvision::nms`."""
    namespace, base, _ = parse(name)
    return base if namespace in ("", "aten") else f"{namespace}::{base}"


@lru_cache(maxsize=8192)
def functional_name(name: str) -> str:
    """Return the base name of the form that is not in place: `add` of `aten::add_.Tensor`."""
    base = parse(name).base
    if not base.endswith("_"):
        return base
    if _IN_PLACE_DUNDER.fullmatch(base):
        return "__" + base[3:]
    return base if base.endswith("__") else base[:-1]


@lru_cache(maxsize=8192)
def canonical_name(name: str) -> str:
    """Return one name for all variants of a calculation: `aten::_foreach_add_.List` → `add`.

    Devices run one calculation under different names: `aten::convolution` on a CPU is
    `aten::convolution_overrideable` below an accelerator's dispatcher.
    """
    base = functional_name(name).removeprefix("_foreach_")
    return canonical_names().get(base, base)


@lru_cache(maxsize=8192)
def is_in_place(name: str) -> bool:
    """Return whether an operator writes into its first argument: `aten::add_.Tensor`, `aten::__iand__.Tensor`."""
    return functional_name(name) != parse(name).base


@lru_cache(maxsize=8192)
def is_foreach(name: str) -> bool:
    """Return whether one call of the operator stands for one call for each tensor of its lists."""
    return parse(name).base.startswith(_FUSED)


def variants(canonical: str) -> tuple[str, ...]:
    """Return the device-specific names of a canonical one, without itself."""
    return tuple(judged()["variants"].get(canonical, "").split())


@cache
def canonical_names() -> dict[str, str]:
    """Return the canonical name of each variant."""
    return {variant: name for name, text in judged()["variants"].items() for variant in text.split()}
