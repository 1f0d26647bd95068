"""The form of a framework's table: `Words`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jumar.comparison.model.renames import EPSILON_FORM

Settings = Mapping[str, Any]
Lists = dict[str, list[Any]]
"""Settings of an optimizer, one item a group of parameters."""

UNCORRECTED, IN_ROOT = "uncorrected", "in the root"
"""Where an optimizer adds eps: to the root of the second moment before its bias is corrected, or below the root.
PyTorch adds it last."""


def epsilon_reach(one: Settings, other: Settings) -> float:
    """Return up to which size of a gradient's element two forms of adding eps make other steps; 0 for one form."""
    forms = {one.get(EPSILON_FORM), other.get(EPSILON_FORM)}
    eps = max((side["eps"] for side in (one, other) if isinstance(side.get("eps"), int | float)), default=0.0)
    if len(forms) == 1 or not eps:
        return 0.0
    betas = one.get("betas") or other.get("betas") or (0.0, 0.0)
    kept = max([betas[1], *(side.get("alpha") or 0.0 for side in (one, other))])
    last = math.sqrt(1 - kept) if 0 <= kept < 1 else 1.0
    return math.sqrt(eps) / last if IN_ROOT in forms else eps / last


def _as_they_are(name: str, settings: Lists) -> tuple[str, Lists]:
    return name, settings


def _none(settings: Settings) -> str:
    del settings
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Names of a framework, with PyTorch's for the same."""

    optimizers: Mapping[str, str] = field(default_factory=dict)
    """Classes of optimizers, where they differ."""
    optimizer_settings: Mapping[str, str] = field(default_factory=dict)
    judge_optimizer: Callable[[str, Lists], tuple[str, Lists]] = _as_they_are
    """Gives class and settings of an optimizer, both in PyTorch's names already, as PyTorch means them."""
    built_in_activation: Callable[[Settings], str] = _none
    """Gives PyTorch's class of the activation that a layer applies to its result itself; empty for none."""
    layer: Callable[[Settings], dict[str, Any]] = dict
    """Gives the settings of a layer (`RunInfo.layers`) in PyTorch's names and meaning. The class is `type`, empty where
    PyTorch's class for it is not known."""


def single(value: Any) -> Any:
    """Return the one number of a list of equal ones."""
    if isinstance(value, (list, tuple)) and value and all(item == value[0] for item in value):
        return value[0]
    return value


def same_padding(kernel_size: Any, stride: Any, dilation: Any) -> Any:
    """Return the padding on each side that the mode `same` stands for; a text where that depends on the input."""
    if isinstance(single(kernel_size), (list, tuple)):
        num = len(kernel_size)
        each = zip(kernel_size, _each(stride, num), _each(dilation, num), strict=False)
        return single([same_padding(*one) for one in each])
    kernel = single(kernel_size)
    span = (single(dilation) or 1) * (kernel - 1) if isinstance(kernel, int) else 1
    if not span:
        return 0
    return span // 2 if single(stride) == 1 and not span % 2 else "same (more at the end)"


def _each(value: Any, num: int) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value] * num
