"""The arithmetic of the chip: what it computes otherwise than a CPU does. `exact` numerics switch all of it off.

`layers` puts these around the CPU kernels, innermost first:

- `cube`: operands of the matrix unit are rounded to float16 or HF32, half results are rounded once;
- `pooling`: pooling that the first generation computes in float16;
- `saturation`: Inf and NaN become finite where the chip saturates, and the overflow flag is raised;
- `loss_scale`: there, the check of a loss scaler reads that flag;
- `dtypes`: tensors of a type that the chip's operator does not take are refused.
"""

from __future__ import annotations

from jumar.device.emulator import half_softmax, plans, policy, wider
from jumar.device.emulator.numerics import cube, dtypes, loss_scale, overflow, pooling, saturation
from jumar.device.emulator.numerics.arithmetic import is_strict, saturates

__all__ = ["install", "is_strict", "overflow", "saturates"]


def install() -> None:
    """Put the layers of the chip around the CPU kernels, and the policy around those. Called once."""
    of_the_chip = [cube.layer, pooling.layer, saturation.layer, loss_scale.layer, dtypes.layer]
    plans.LAYERS.extend([wider.layer, half_softmax.layer, *of_the_chip, policy.layer])
