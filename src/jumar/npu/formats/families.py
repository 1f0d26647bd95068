"""Which operators treat formats alike: `Family`, from the packaged table `vendor_kernels.json`.

An operator that the table does not name and that does not work element by element is `GENERAL`: it reads dense formats,
and its result is declared in the format of its first argument, which is the default of op-plugin's adapters.
"""

from __future__ import annotations

import enum
import functools

import torch

from jumar.npu.core.plans import PLANS
from jumar.operators import base_name, functional_name, parse
from jumar.soc.support.data import table


class Family(enum.Enum):
    """How operators of a kind choose formats; `rules` has the rule of each."""

    CONVOLUTION = "convolution"
    CONVOLUTION_BACKWARD = "convolution backward"
    MATMUL = "matmul"
    BLOCKED = "blocked"
    """Pooling and the like: the kernel reads NC1HWC0 only."""
    NORMALISATION = "normalisation"
    FOLLOWING = "following"
    """Element by element: the first argument's format."""
    LISTS = "lists"
    """Element by element over lists of tensors."""
    CONCATENATION = "concatenation"
    COPY = "copy"
    CLONE = "clone"
    CAST = "cast"
    DENSE = "dense"
    """Reads and gives dense formats."""
    GENERAL = "general"
    UNTOUCHED = "untouched"
    """Views, casts of formats and allocations: no kernel reads or writes memory in a format."""


@functools.cache
def _listed() -> dict[str, Family]:
    """Return functional name → family, for the operators that the packaged table names."""
    formats = table("vendor_kernels")["formats"]
    return {name: Family(family) for family, names in formats.items() for name in names.split()}


@functools.cache
def family_of(operator: str) -> Family:
    """Return the family of an operator overload (`aten::add.Tensor`, `npu::npu_rms_norm`)."""
    plan = PLANS.get(operator)
    if plan is not None and plan.form == "view":
        return Family.UNTOUCHED
    name = functional_name(operator)
    listed = _listed().get(name) or _listed().get(base_name(operator))
    if listed is not None and not (name in ("max", "min") and operator.endswith(".other")):
        return listed
    if name.startswith(("_foreach_", "_fused_", "_amp_foreach_")):
        return Family.LISTS
    return Family.FOLLOWING if _is_pointwise(operator) else Family.GENERAL


def _is_pointwise(operator: str) -> bool:
    namespace, base, overload = parse(operator)
    packet = getattr(getattr(torch.ops, namespace), base, None)
    found = getattr(packet, overload or "default", None)
    return found is not None and torch.Tag.pointwise in found.tags
