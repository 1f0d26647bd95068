"""A linear layer whose weight alone is quantised."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

Tensor = torch.Tensor

__all__ = ["LinearWeightQuant"]


class LinearWeightQuant(nn.Module):
    """`npu_weight_quant_batchmatmul` of a float input and an integer weight.

    A model fills the parameters from a quantised checkpoint: `weight` (out_features, in_features),
    `antiquant_scale` (out_features,) or, in groups of `antiquant_group_size` inputs, (out_features,
    num_groups), and, where asked for, `antiquant_offset`, `quant_scale`, `quant_offset` and `bias`; none is
    trained. `dtype` changes nothing, as at the vendor's.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        antiquant_offset: bool = False,
        quant_scale: bool = False,
        quant_offset: bool = False,
        antiquant_group_size: int = 0,
        inner_precise: int = 0,
        weight_dtype: Any = None,
    ) -> None:
        super().__init__()

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device), requires_grad=False)

        self.weight = parameter(out_features, in_features)
        self.antiquant_scale = parameter(out_features)
        self.register_parameter("antiquant_offset", parameter(out_features) if antiquant_offset else None)
        self.register_parameter("quant_scale", parameter(out_features) if quant_scale else None)
        self.register_parameter("quant_offset", parameter(out_features) if quant_offset else None)
        self.register_parameter("bias", parameter(out_features) if bias else None)
        self.antiquant_group_size = antiquant_group_size
        self.inner_precise = inner_precise
        self.weight_dtype = weight_dtype

    def forward(self, x: Tensor) -> Tensor:
        """Return the product of `x`, (..., in_features) float16 or bfloat16, with the weight made float again."""
        result: Tensor = torch.ops.npu.npu_weight_quant_batchmatmul(
            x,
            self.weight.transpose(-1, -2),
            _by_column(self.antiquant_scale),
            _by_column(self.antiquant_offset),
            self.quant_scale,
            self.quant_offset,
            self.bias,
            self.antiquant_group_size,
            self.inner_precise,
            weight_dtype=self.weight_dtype,
        )
        return result


def _by_column(parameter: Any) -> Any:
    return parameter.transpose(-1, -2) if parameter is not None and parameter.dim() == 2 else parameter
