"""`gelu` becomes the vendor's faster approximation of it."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["fast_gelu_pass"]

_EXACT = """
graph(%input):
    %approximate : str = prim::Constant[value='none']()
    %result = aten::gelu(%input, %approximate)
    return (%result)
"""
_FAST = """
graph(%input):
    %result = npu::fast_gelu(%input)
    return (%result)
"""


def fast_gelu_pass(jit_mod: Any) -> None:
    """Replace exact `gelu` in the graph of a scripted module by `npu::fast_gelu`."""
    torch._C._jit_pass_custom_pattern_based_rewrite_graph(_EXACT, _FAST, jit_mod.graph)
