"""Which of the algorithms computes a convolution."""

from __future__ import annotations

from jumar.tune.engines.kernels.depthwise import lower_depthwise
from jumar.tune.engines.kernels.lower import Lowering
from jumar.tune.engines.kernels.products import lower_product
from jumar.tune.engines.kernels.steps import Conv
from jumar.tune.engines.kernels.tiles import lower_phased, lower_winograd, tiling_of


def lower_conv(low: Lowering, step: Conv) -> None:
    """Plan a convolution or linear layer."""
    if step.is_depthwise:
        lower_depthwise(low, step)
        return
    way = tiling_of(low, step)
    if way.phased:
        lower_phased(low, step, way.m)
    elif way.m:
        lower_winograd(low, step, way.m)
    else:
        lower_product(low, step)
