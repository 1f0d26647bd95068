"""Which of the algorithms computes a convolution."""

from __future__ import annotations

from jumar.tune.engines.kernels.depthwise import lower_depthwise
from jumar.tune.engines.kernels.lower import Lowering
from jumar.tune.engines.kernels.products import lower_product
from jumar.tune.engines.kernels.steps import Conv
from jumar.tune.engines.kernels.tiles import lower_winograd, winograd_tile


def lower_conv(low: Lowering, step: Conv) -> None:
    """Plan a convolution or linear layer."""
    if step.is_depthwise:
        lower_depthwise(low, step)
    elif tile := winograd_tile(low, step):
        lower_winograd(low, step, tile)
    else:
        lower_product(low, step)
