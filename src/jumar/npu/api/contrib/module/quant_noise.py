"""Noise of quantisation: blocks of a weight dropped at random while training."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import nn

Layer = TypeVar("Layer", nn.Linear, nn.Embedding, nn.Conv2d)


def quant_noise(module: Layer, p: float, block_size: int) -> Layer:
    """Let `module` drop blocks of its weight with probability `p` before each forward while training; return it.

    Fan et al., "Training with Quantization Noise for Extreme Model Compression": blocks are `block_size`
    inputs of an output, or a whole kernel of a convolution larger than 1x1. The dropped values stay zero, as
    they do at the vendor's. Raises TypeError for another kind of layer, ValueError for blocks that do not fit.
    """
    if p <= 0:
        return module
    if not isinstance(module, (nn.Linear, nn.Embedding, nn.Conv2d)):
        raise TypeError("Expected isinstance(module, (nn.Linear, nn.Embedding, nn.Conv2d))")
    _check_blocks(module, block_size)

    def drop(layer: Any, _: Any) -> None:
        if layer.training:
            dropped = _mask(layer, p, block_size)
            layer.weight.data = layer.weight.masked_fill(dropped, 0) / (1 - p)

    module.register_forward_pre_hook(drop)
    return module


def _check_blocks(module: nn.Linear | nn.Embedding | nn.Conv2d, block_size: int) -> None:
    if not isinstance(module, nn.Conv2d):
        if module.weight.size(1) % block_size:
            raise ValueError("Input features must be a multiple of block sizes")
    elif module.kernel_size == (1, 1):
        if module.in_channels % block_size:
            raise ValueError("Input channels must be a multiple of block sizes")
    elif (module.kernel_size[0] * module.kernel_size[1]) % block_size:
        raise ValueError("Kernel size must be a multiple of block size")


def _mask(layer: Any, p: float, block_size: int) -> torch.Tensor:
    """Return a bool tensor of the weight's shape, true in the blocks to drop."""
    weight = layer.weight
    if weight.ndim == 4 and layer.kernel_size != (1, 1):
        drawn = torch.zeros(weight.shape[:2], device=weight.device).bernoulli_(p)
        return drawn[..., None, None].expand(weight.shape).bool()
    drawn = torch.zeros(weight.numel() // block_size, device=weight.device).bernoulli_(p)
    return drawn.repeat_interleave(block_size).view(weight.shape).bool()
