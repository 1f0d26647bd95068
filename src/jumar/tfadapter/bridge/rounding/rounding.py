"""`Rounding`: matrix operators take and give float16 (or bfloat16) where a precision mode says so.

The public pages on precision modes say that matrix operators calculate in the smaller type. Which vector operators
follow depends on the mode and on tables of the vendor, and is not shown. A product of the CPU adds up in float32, as
the matrix unit does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from jumar.tfadapter.bridge.state import STATE
from jumar.tfadapter.checks.subject import family_of

MATRIX = frozenset({
    "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput", "Conv3D",
    "Conv3DBackpropFilterV2", "Conv3DBackpropInputV2", "DepthwiseConv2dNative",
    "DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropInput", "Einsum", "MatMul",
})  # fmt: skip
_HALF = frozenset({
    "allow_fp32_to_fp16", "allow_mix_precision", "allow_mix_precision_fp16", "cube_fp16in_fp32out", "force_fp16",
    "fp16", "mixed_float16",
})  # fmt: skip
_BFLOAT = frozenset({"allow_fp32_to_bf16", "allow_mix_precision_bf16", "mixed_bfloat16"})
Arrays = list[np.ndarray | None]


@dataclass(frozen=True)
class Rounding:
    """How matrix operators round."""

    dtype: Any
    """tf.float16 or tf.bfloat16."""
    outputs: bool = True

    @property
    def saturates(self) -> bool:
        """Whether a value that is too large becomes the largest one: as was set, else as on the first chips."""
        if self.dtype != tf.float16:
            return False
        return family_of(STATE.soc or "") == "A1" if STATE.saturates is None else STATE.saturates

    def round(self, tensor: Any) -> Any:
        """Return a float32 tensor with the values that the smaller type has."""
        if self.saturates:
            tensor = tf.clip_by_value(tensor, self.dtype.min, self.dtype.max)
        return tf.cast(tf.cast(tensor, self.dtype), tf.float32)

    def narrowed(self, inputs: Arrays, outputs: Arrays) -> tuple[Arrays, Arrays]:
        """Return the numbers of a matrix operator in float16; as they are with bfloat16, which NumPy does not have."""
        if self.dtype != tf.float16:
            return inputs, outputs
        return [_half(one) for one in inputs], [_half(one) for one in outputs] if self.outputs else outputs


def _half(array: np.ndarray | None) -> np.ndarray | None:
    if array is None or array.dtype != np.float32:
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float16)


def rounding_of(options: Mapping[str, Any]) -> Rounding | None:
    """Return what `precision_mode` or `precision_mode_v2` asks for; None where all keeps its type."""
    values = {_text(options.get(name)) for name in ("precision_mode", "precision_mode_v2")}
    if values & _HALF:
        found = Rounding(tf.float16, "cube_fp16in_fp32out" not in values)
    elif values & _BFLOAT:
        found = Rounding(tf.bfloat16)
    else:
        if any("hif8" in value for value in values):
            STATE.not_shown["HiFloat8: TensorFlow does not have it"] = None
        return None
    STATE.not_shown["vector operators in a smaller type: of a precision mode only matrix operators are rounded"] = None
    return found


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
