"""`Rounding`: operators that Ascend computes in float16 whatever they are given, rounded as there.

Document 003 lists them. A chip casts their float32 inputs to float16, multiplies with float32 sums, and gives float16,
which is cast back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FLOAT16_ONLY = frozenset({
    "AdaptiveMaxPool2D", "AvgPool3D", "AvgPool", "MaxPool", "MaxPoolWithArgmax", "Pooling",
    "LSTM", "DynamicRNN", "GRUV2",
    "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "DepthwiseConv2dNative",
    "MatMul", "BatchMatMul",
    "Sort", "TopK",
    "BoundingBoxEncode", "ExtractImagePatches", "ExtractVolumePatches", "FusedDbnDw", "IOU", "NewIm2Col", "NMSWithMask",
})  # fmt: skip
"""As document 003 names them."""

_SAME = {
    "Conv2DBackpropInput": "Conv2D", "Conv2DBackpropFilter": "Conv2D", "Conv3DBackpropInput": "Conv3D",
    "Conv3DBackpropFilter": "Conv3D", "MaxPoolGrad": "MaxPool", "AvgPoolGrad": "AvgPool", "MatMulExt": "MatMul",
    "BatchMatMulExt": "BatchMatMul", "BatchMatMulV2": "BatchMatMul", "MatMulV2": "MatMul", "Dense": "MatMul",
    "AvgPool3DGrad": "AvgPool3D", "AvgPoolGradV1": "AvgPool", "MaxPoolGradV1": "MaxPool", "TopkExt": "TopK",
    "SortExt": "Sort", "CudnnGRU": "GRUV2",
}  # fmt: skip
"""Gradients and newer names of operators of the list."""


class Rounding:
    """Calls an operator as a chip does. `counts` says how often each was rounded."""

    def __init__(self) -> None:
        import mindspore

        self._tensor, self._float32, self._float16 = mindspore.Tensor, mindspore.float32, mindspore.float16
        self._is_casting = False
        self.counts: dict[str, int] = {}

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Return what `function` (an operator with a `name`) gives for arguments and results in float16."""
        name = _SAME.get(function.name, function.name)
        if self._is_casting or name not in FLOAT16_ONLY:
            return function(*args)
        changed = self._mapped(args)
        if changed is args:
            return function(*args)
        self.counts[function.name] = self.counts.get(function.name, 0) + 1
        return self._mapped(function(*changed))

    def _mapped(self, value: Any) -> Any:
        """Return the value with each float32 tensor in it rounded to float16; itself where there is none."""
        if isinstance(value, self._tensor):
            return self._rounded(value) if value.dtype == self._float32 else value
        if isinstance(value, (tuple, list)):
            items = [self._mapped(item) for item in value]
            same = all(one is other for one, other in zip(items, value, strict=True))
            return value if same else type(value)(items)
        return value

    def _rounded(self, tensor: Any) -> Any:
        """Cast to float16 and back. The casts are operators, so that gradients go through them."""
        self._is_casting = True
        try:
            return tensor.astype(self._float16).astype(self._float32)
        finally:
            self._is_casting = False


Call = Callable[[Any, tuple[Any, ...]], Any]
"""How an operator is called: its function and arguments, its result."""
