"""Depthwise convolutions, by themselves or in bands with the product before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jumar.tune.engines.kernels.lowering.layout import Buffer, Value
from jumar.tune.engines.kernels.lowering.lower import Fields, Lowering, origin, pixels, target
from jumar.tune.engines.kernels.lowering.products import MAX_WIDTH, WIDTH
from jumar.tune.engines.kernels.lowering.weights import folded
from jumar.tune.engines.kernels.program import CODES
from jumar.tune.engines.kernels.recognise.steps import Conv
from jumar.tune.model.task import contiguous_stride

MAX_TAPS = 64
"""As native/planes.hpp has it."""
BAND_FLOATS = 32 * 1024
"""Of a band between a product and a depthwise convolution: 128 KiB."""


def lower_depthwise(low: Lowering, step: Conv) -> None:
    """Plan a depthwise convolution; with several outputs a channel, the inputs are repeated first."""
    if _is_between_tensors(low, step):
        _lower_planes(low, step)
        return
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


def _is_between_tensors(low: Lowering, step: Conv) -> bool:
    """Tell whether it reads a tensor that nothing else has loaded, and only makes a contiguous one of the graph's."""
    spec, (height, width) = low.graph.spec_of(step.output), step.kernel
    if step.inputs[0] in low.values or step.channels[0] != step.channels[1] or height * width > MAX_TAPS:
        return False
    if 2 * low.shape(step.output)[3] <= low.choices.lanes:
        return False  # more than half of a vector of neighbouring pixels would be empty; of channels it is not
    is_last = low.uses[step.output] == 1 and step.output in low.graph.outputs
    return is_last and spec is not None and spec.stride == contiguous_stride(spec.shape)


def _lower_planes(low: Lowering, step: Conv) -> None:
    """Plan a depthwise convolution plane by plane, from one ordinary tensor to another."""
    (images, channels, in_h, in_w), (_, _, out_h, out_w) = low.shape(step.inputs[0]), low.shape(step.output)
    weight, bias = folded(step, low.constant)
    (kh, kw), (sy, sx), (dy, dx), lanes = step.kernel, step.stride, step.dilation, low.choices.lanes
    # Whole vectors of outputs are computed, so rows have room for the last one's inputs.
    row = -(-out_w // lanes) * lanes + ((kw - 1) * dx) // sx
    rows = (out_h - 1) * sy + (kh - 1) * dy + 1
    scratch = Buffer(1, low.choices.num_threads, 1, -(-sx * rows * row // lanes) + 1, lanes)
    low.buffers.append(scratch)
    fields = {
        "code": CODES.index("DEPTHWISE_PLANES"), "images": images, "channels": channels,
        "tensor": low.external(step.inputs[0]), "tensor_out": low.external(step.output), **low.ending(step),
        "weight": low.weights.put(weight), "bias": low.weights.put(bias), "in_h": in_h, "in_w": in_w, "in_row": row,
        "in_blocks": rows, "plane": rows * row, "out_h": out_h, "out_w": out_w, "kh": kh, "kw": kw, "sy": sy, "sx": sx,
        "dy": dy, "dx": dx, "top": step.padding[0], "left": step.padding[1],
    }  # fmt: skip
    low.written.append(step.output)
    low.add(lambda: [fields | {"scratch": scratch.start, "scratch_size": scratch.block}], [], [scratch])


def _in_bands(low: Lowering, step: Conv, source: Buffer, out: Buffer, emit: Callable[[], Sequence[Fields]]) -> bool:
    """Plan product and depthwise convolution as one, where nothing else reads what is between them."""
    writer = next(
        (item for item in low.plan[low.run_start :] if item.bands is not None and source in item.writes), None
    )
    if writer is None or not low.choices.fuse or not _is_read_once(low, source):
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


def _is_read_once(low: Lowering, buffer: Buffer) -> bool:
    """Tell whether every value in a buffer has one reader: what one reads some channels of, others may read as well."""
    return all(low.uses[reference] == 1 for reference, value in low.values.items() if buffer in value.buffers)
