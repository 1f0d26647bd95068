"""Rewrites of a scripted module for the NPU."""

from __future__ import annotations

from typing import Any

import torch

from jumar.npu.api.jit.fusion_pass.fast_gelu import fast_gelu_pass

__all__ = ["optimize"]


def optimize(jit_mod: Any) -> None:
    """Rewrite a scripted module in place: as PyTorch does for inference, then `gelu` as `npu::fast_gelu`."""
    if isinstance(jit_mod, torch.jit.ScriptModule):
        torch.jit.optimize_for_inference(jit_mod)
    fast_gelu_pass(jit_mod)
