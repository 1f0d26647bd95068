"""`LinearA8W8Quant`, the older name of `LinearQuant`."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from jumar.npu.api.contrib.deprecated import warn_deprecated
from jumar.npu.api.contrib.module.linear_quant import LinearQuant

Tensor = torch.Tensor

__all__ = ["LinearA8W8Quant"]


class LinearA8W8Quant(LinearQuant):
    """`LinearQuant` that checks the dtypes of its parameters; deprecated."""

    __signature__ = inspect.signature(LinearQuant)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        warn_deprecated("module.LinearA8W8Quant", "torch_npu.contrib.module.LinearQuant")

    def forward(self, linear_quant_input: Tensor) -> Tensor:
        """Return what `LinearQuant` returns. Raises ValueError for a parameter of a dtype the operator lacks."""
        _check("scale", self.scale, torch.int64, torch.float32, torch.bfloat16)
        _check("offset", self.offset, torch.float32)
        _check("bias", self.bias, torch.int32, torch.bfloat16, torch.float16, torch.float32)
        _check("pertoken_scale", self.pertoken_scale, torch.float32)
        if self.output_dtype not in (None, torch.int8, torch.float16, torch.bfloat16):
            raise ValueError(
                "output_dtype should be torch.int8, torch.float16 or torch.bfloat16, "
                f"but now it is {self.output_dtype}."
            )
        return super().forward(linear_quant_input)


def _check(name: str, parameter: Tensor | None, *allowed: torch.dtype) -> None:
    if parameter is not None and parameter.dtype not in allowed:
        *first, last = map(str, allowed)
        names = f"{', '.join(first)} or {last}" if first else last
        raise ValueError(f"{name} should be {names} datatype, but now it is {parameter.dtype}.")
