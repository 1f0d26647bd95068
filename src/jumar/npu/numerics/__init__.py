"""The arithmetic of the chip where it differs from a CPU's. `exact` numerics switch all of it off.

`layers` puts these around the CPU kernels, innermost first:

- `cube`: operands of the matrix unit are rounded to float16 or HF32, half results are rounded once;
- `halves`: what sums halves does so in float32, and rounds once;
- `cube.pooling_layer`: pooling that the first generation computes in float16;
- `saturation`: Inf and NaN become finite where the chip saturates, and the overflow flag is raised;
- `saturation.loss_scale_layer`: there, the check of a loss scaler reads that flag;
- `dtypes`: tensors of a type that the chip's operator does not take are refused.
"""

from __future__ import annotations

from jumar.npu.core import plans
from jumar.npu.dispatch import policy
from jumar.npu.numerics import cube, dtypes, halves, lenient, overflow, saturation, wider
from jumar.npu.numerics.arithmetic import is_strict, saturates

__all__ = ["install", "is_strict", "overflow", "saturates"]


def install() -> None:
    """Put the layers of the chip around the CPU kernels, and the policy around those. Called once."""
    saturating = [saturation.layer, saturation.loss_scale_layer]
    of_halves = [halves.layer, halves.stepwise_layer, halves.infinite_distance_layer]
    of_the_chip = [cube.layer, *of_halves, cube.pooling_layer, *saturating, dtypes.layer]
    of_all = [wider.layer, wider.half_softmax_layer, lenient.index_layer, lenient.renorm_layer]
    plans.LAYERS.extend([*of_all, *of_the_chip, policy.layer])
