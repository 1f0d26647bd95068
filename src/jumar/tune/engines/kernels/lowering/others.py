"""Everything that is no convolution, as operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jumar.tune.engines.kernels.lowering.layout import Value, joined
from jumar.tune.engines.kernels.lowering.lower import Fields, Lowering, origin, target
from jumar.tune.engines.kernels.lowering.weights import scale_and_shift
from jumar.tune.engines.kernels.program import CODES
from jumar.tune.engines.kernels.recognise.steps import Affine, Binary, Channels, Gelu, Mean, Pool, Step

_KINDS = ("add", "mul", "sub")
"""In the order of `enum Binary` in simple.hpp."""


def lower_pool(low: Lowering, step: Pool) -> None:
    """Plan a maximum or average over windows."""
    window = {
        "kh": step.kernel[0], "kw": step.kernel[1], "sy": step.stride[0], "sx": step.stride[1],
        "dy": step.dilation[0], "dx": step.dilation[1], "top": step.padding[0], "left": step.padding[1],
        "maximum": int(step.maximum), "divisor": step.divisor, "count_padding": int(step.count_padding),
    }  # fmt: skip
    _by_lane(low, step, {"code": CODES.index("POOL"), **window})


def lower_mean(low: Lowering, step: Mean) -> None:
    """Plan a mean over all pixels."""
    _by_lane(low, step, {"code": CODES.index("MEAN")})


def _by_lane(low: Lowering, step: Step, fields: Fields) -> None:
    """Plan what treats every lane alike: the output has its channels where the input has them."""
    value = low.single(step.inputs[0])
    buffer = low.buffer(low.shape(step.output), value.one.blocks)
    low.values[step.output] = Value([buffer], value.source, value.channel)
    low.add(lambda: [{**origin(value.one), **target(buffer), **fields}], value.buffers, [buffer])


def lower_affine(low: Lowering, step: Affine) -> None:
    """Plan a normalization or activation that stands alone."""
    scale: Any = 1.0
    shift: Any = 0.0
    if step.norm is not None:
        scale, shift = scale_and_shift(step.norm, low.constant)
    value = low.native(step.inputs[0])
    low.values[step.output] = low.gathered(value, low.shape(step.output), scale, shift, step)


def lower_binary(low: Lowering, step: Binary) -> None:
    """Plan a sum, difference or product; the second operand may have one pixel an image."""
    left, right = (low.single(value) for value in step.inputs)
    if left.one.blocks != right.one.blocks or not np.array_equal(left.channel, right.channel):
        left, right = (low.plain(value) for value in step.inputs)
    # Channels in order may be the first of a buffer that has a block more than the other value.
    buffer = low.buffer(low.shape(step.output), min(left.one.blocks, right.one.blocks))
    low.values[step.output] = Value([buffer], left.source, left.channel)
    ending = low.ending(step)
    is_pixel = low.shape(step.inputs[1])[2:] != low.shape(step.inputs[0])[2:]

    def emit() -> Sequence[Fields]:
        other = right.one
        return [
            {
                "code": CODES.index("BINARY"), **origin(left.one), **target(buffer), **ending, "other": other.start,
                "other_image": other.image, "other_block": other.block, "other_row": 0 if is_pixel else other.row,
                "other_step": 0 if is_pixel else other.lanes, "kind": _KINDS.index(step.kind),
            }
        ]  # fmt: skip

    low.add(emit, [*left.buffers, *right.buffers], [buffer])


def lower_channels(low: Lowering, step: Channels) -> None:
    """Note which channels a value has; nothing is done until an operation needs them in one place."""
    whole = joined([low.native(value) for value in step.inputs])
    starts = np.cumsum([0, *(low.shape(value)[1] for value in step.inputs)])
    low.values[step.output] = whole.pick(np.array([starts[number] + channel for number, channel in step.picks]))


def lower_gelu(low: Lowering, step: Gelu) -> None:
    """Plan a GELU from one ordinary tensor to another."""
    source, spec = step.inputs[0], low.graph.spec_of(step.inputs[0])
    assert spec is not None
    if source in low.values and source not in low.externals:
        low.stored(source)
    fields = {
        "code": CODES.index("GELU"), "row": math.prod(spec.shape), "tensor": low.external(source),
        "tensor_out": low.external(step.output),
    }  # fmt: skip
    low.written.append(step.output)
    low.contiguous.append(source)
    low.add(lambda: [fields], [], [])


OTHERS: dict[type[Step], Callable[[Lowering, Any], None]] = {
    Pool: lower_pool, Mean: lower_mean, Affine: lower_affine, Binary: lower_binary, Channels: lower_channels,
    Gelu: lower_gelu,
}  # fmt: skip
