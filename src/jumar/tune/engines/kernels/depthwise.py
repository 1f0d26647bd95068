"""Depthwise convolutions, by themselves or in bands with the product before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jumar.tune.engines.kernels.fields import CODES
from jumar.tune.engines.kernels.layout import Buffer, Value
from jumar.tune.engines.kernels.lower import Fields, Lowering, origin, pixels, target
from jumar.tune.engines.kernels.products import MAX_WIDTH, WIDTH
from jumar.tune.engines.kernels.steps import Conv
from jumar.tune.engines.kernels.weights import folded

BAND_FLOATS = 32 * 1024
"""Of a band between a product and a depthwise convolution: 128 KiB."""


def lower_depthwise(low: Lowering, step: Conv) -> None:
    """Plan a depthwise convolution; with several outputs a channel, the inputs are repeated first."""
    inside, outside = step.channels
    shape = low.shape(step.inputs[0])
    if inside == outside:
        value = low.single(step.inputs[0])
    else:
        repeated = low.native(step.inputs[0]).pick(np.repeat(np.arange(inside), outside // inside))
        value = low.gathered(repeated, (shape[0], outside, *shape[2:]))
    source = value.one
    out = low.made(step.output)
    if out.one.blocks != source.blocks or not value.is_plain:
        low.buffers.remove(out.one)
        buffer = low.buffer(low.shape(step.output), source.blocks)
        out = Value([buffer], value.source, value.channel)
        low.values[step.output] = out
    weight, bias = folded(step, low.constant)
    lanes, taps = low.choices.lanes, step.kernel[0] * step.kernel[1]
    by_lane = np.zeros((taps + 1, source.blocks * lanes))
    by_lane[:taps, value.channel] = weight.reshape(outside, taps).T
    by_lane[taps, value.channel] = bias
    blocked = by_lane[:taps].reshape(taps, source.blocks, lanes).transpose(1, 0, 2)
    ending = low.ending(step)
    places = {"weight": low.weights.put(blocked), "bias": low.weights.put(by_lane[taps])}
    window = {
        "kh": step.kernel[0], "kw": step.kernel[1], "sy": step.stride[0], "sx": step.stride[1],
        "dy": step.dilation[0], "dx": step.dilation[1],
    }  # fmt: skip

    def emit() -> Sequence[Fields]:
        top, left = step.padding[:2]
        begin = {"in": source.start - top * source.row - left * source.lanes}
        return [{"code": CODES.index("DEPTHWISE"), **origin(source), **begin, **target(out.one), **ending, **places,
                 **window}]  # fmt: skip

    if not _in_bands(low, step, source, out.one, emit):
        source.widen(step.padding)
        low.add(emit, [source], [out.one])


def _in_bands(low: Lowering, step: Conv, source: Buffer, out: Buffer, emit: Callable[[], Sequence[Fields]]) -> bool:
    """Plan product and depthwise convolution as one, where nothing else reads what is between them."""
    writer = next(
        (item for item in low.plan[low.run_start :] if item.bands is not None and source in item.writes), None
    )
    if writer is None or not low.choices.fuse or low.uses[step.inputs[0]] != 1:
        return False
    (top, left, _, right), (sy, _) = step.padding, step.stride
    span = (step.kernel[0] - 1) * step.dilation[0] + 1
    row = left + source.width + right
    band = min(out.height, max(1, (BAND_FLOATS // (row * WIDTH * source.lanes) - span) // sy + 1))
    plane = ((band - 1) * sy + span) * row * source.lanes
    scratch = Buffer(1, low.choices.num_threads, 1, MAX_WIDTH * plane // source.lanes, source.lanes)
    low.buffers.append(scratch)
    rows = Buffer(1, 1, source.height, source.width, source.lanes, (0, left, 0, right))
    low.plan.remove(writer)
    bands = writer.bands

    def both() -> Sequence[Fields]:
        assert bands is not None
        product = bands() | {
            "code": CODES.index("FUSED"), "out_row": rows.row, "out_at": low.tables.put(pixels(rows, images=False)),
            "top": top, "left": left, "band": band, "plane": plane, "scratch": scratch.start,
            "scratch_size": scratch.block,
        }  # fmt: skip
        return [product, *emit()]

    low.add(both, writer.reads, [out, scratch])
    return True
