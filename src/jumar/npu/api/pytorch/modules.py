"""Modules whose parameters have no shape yet may be moved by `.npu()`, as by `.to("npu")`."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parameter import UninitializedParameter


def install() -> None:
    """Add `Tensor.npu` to what a parameter without a shape allows."""
    lazy: Any = UninitializedParameter
    lazy._allowed_methods.append(torch.Tensor.npu)  # type: ignore[attr-defined]
