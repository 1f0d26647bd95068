"""A linear layer of integers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

Tensor = torch.Tensor

__all__ = ["LinearQuant"]

_INTEGERS = (torch.int8, torch.int32)


class LinearQuant(nn.Module):
    """`npu_quant_matmul` of an input and a weight, both int8, or both int32 of eight 4-bit numbers each.

    A model fills the parameters from a quantised checkpoint: `weight` (out_features, in_features), `scale`
    (out_features,), and, where asked for, `offset`, `pertoken_scale` and `bias` (out_features,); none is
    trained. `device` and `dtype` change nothing, as at the vendor's.
    """

    offset: Any
    pertoken_scale: Any
    bias: Any

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        offset: bool = False,
        pertoken_scale: bool = False,
        device: Any = None,
        dtype: Any = None,
        output_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features, self.output_dtype = in_features, out_features, output_dtype
        self.weight = _frozen(out_features, in_features)
        self.scale = _frozen(out_features)
        self.register_parameter("offset", _frozen(out_features) if offset else None)
        self.register_parameter("pertoken_scale", _frozen(out_features) if pertoken_scale else None)
        self.register_parameter("bias", _frozen(out_features, dtype=torch.int32) if bias else None)

    def forward(self, linear_quant_input: Tensor) -> Tensor:
        """Return the product of the input, (..., in_features), scaled to `output_dtype` (int8 by default).

        Raises ValueError unless input and weight are both int8 or both int32.
        """
        found = (linear_quant_input.dtype, self.weight.dtype)
        if found[0] != found[1] or found[0] not in _INTEGERS:
            raise ValueError(
                "input and weight should be both torch.int32 or both torch.int8 datatype, "
                f"but now input is {found[0]}, weight is {found[1]}."
            )
        scale: Tensor = self.scale
        if self.pertoken_scale is None and self._scale_is_packed():
            scale = torch.ops.npu.npu_trans_quant_param(scale, self.offset)
        result: Tensor = torch.ops.npu.npu_quant_matmul(
            linear_quant_input,
            self.weight.transpose(-2, -1),
            scale,
            offset=self.offset,
            pertoken_scale=self.pertoken_scale,
            bias=self.bias,
            output_dtype=self.output_dtype,
        )
        return result

    def _scale_is_packed(self) -> bool:
        """Whether the operator wants the scale as packed int64."""
        return self.scale.dtype == torch.float32 and self.output_dtype not in (torch.bfloat16, torch.int32)


def _frozen(*shape: int, dtype: torch.dtype | None = None) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=dtype), requires_grad=False)
