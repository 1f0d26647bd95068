"""Convolutions as operations: which algorithm, from where it reads, and its packed weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jumar.tune.engines.kernels.layout import Buffer, Places, Value
from jumar.tune.engines.kernels.lower import Fields, Lowering, origin, pixels, target
from jumar.tune.engines.kernels.program import CODES
from jumar.tune.engines.kernels.steps import Conv
from jumar.tune.engines.kernels.weights import folded, lanewise, packed, winograd

CACHE_FLOATS = 96 * 1024
"""Of a chunk's inputs: 384 KiB of a second-level cache of 1 MiB or more."""
WIDTH = 2
"""Blocks of output channels a panel, before other widths are tried."""
MAX_WIDTH = 4
PART = 1 << 20
"""Terms of a sum that are added before the next pixels are, before smaller ones are tried; a multiple of 128."""
BAND_FLOATS = 32 * 1024
"""Of a band between a product and a depthwise convolution: 128 KiB."""


def lower_conv(low: Lowering, step: Conv) -> None:
    """Plan a convolution or linear layer."""
    if step.is_depthwise:
        lower_depthwise(low, step)
    elif step.is_square3 and low.choices.winograd and worth_winograd(low, step):
        lower_winograd(low, step)
    else:
        lower_product(low, step)


def worth_winograd(low: Lowering, step: Conv) -> bool:
    """Tell whether Winograd's algorithm is expected to be faster: multiplications, transforms, bytes of weights."""
    m, (inside, outside) = low.choices.winograd, step.channels
    images, _, height, width = low.shape(step.output)
    if min(inside, outside) < low.choices.lanes:
        return False
    tiles, points = images * -(-height // m) * -(-width // m), (m + 2) ** 2
    moved = tiles * points * (inside * outside + 6 * (inside + outside)) / (2 * low.choices.lanes)
    read = points * inside * outside * 4 / 8
    direct = images * height * width * 9 * inside * outside / (2 * low.choices.lanes)
    return max(moved, read) + 0.3 * min(moved, read) < 0.9 * max(direct, 9 * inside * outside * 4 / 8)


def lower_product(low: Lowering, step: Conv) -> None:
    """Plan a convolution as a product over offsets into its input."""
    out = low.made(step.output, step.groups)
    reader = _reader(low, step)
    matrix, bias = _matrix(low, step, reader)
    other = None if step.other is None else _addend(low, step.other, out)
    blocks = out.one.blocks // step.groups
    place = low.weights.put(np.concatenate([packed(group, WIDTH, low.choices.lanes) for group in matrix]))
    low.matrices[place] = matrix, blocks
    ending = low.ending(step)

    def fields_of(*, is_banded: bool) -> Fields:
        offsets, row_step, start = reader.offsets()
        is_flat = reader.is_flat(out.one) and not is_banded
        count = out.one.images * out.one.height * out.one.width if is_flat else out.one.width
        one_row = reader.is_flat_image() and not is_flat
        if one_row:
            count = out.one.height * out.one.width
        depth = offsets.shape[-1]
        fields = {
            "code": CODES.index("PRODUCT"), **target(out.one), **ending, "in": start, "in_image": reader.image(),
            "in_row": row_step, "images": 1 if is_flat else out.one.images, "groups": step.groups, "blocks": blocks,
            "depth": depth, "offsets": low.tables.put(with_lines(offsets, low.choices.lanes)), "weight": place, "bias": low.weights.put(bias),
            "rows": 1 if is_flat or one_row else out.one.height, "row": count, "nr": WIDTH,
            "chunk": max(14, CACHE_FLOATS * step.kernel[0] * step.kernel[1] // depth), "part": PART, "planes": int(reader.is_planes),
            "out_at": low.tables.put(pixels(out.one, images=is_flat)), "in_h": out.one.height, "in_w": out.one.width,
        }  # fmt: skip
        if other is not None:
            fields |= {
                "other": other.one.start, "other_image": other.one.image, "other_block": other.one.block,
                "other_at": low.tables.put(pixels(other.one, images=is_flat)),
            }  # fmt: skip
        return fields

    reads = [*reader.buffers, *([] if other is None else other.buffers)]
    bands = None if other is not None or step.groups > 1 else partial(fields_of, is_banded=True)
    low.add(lambda: [fields_of(is_banded=False)], reads, [out.one], bands)


def with_lines(offsets: Places, lanes: int) -> Places:
    """Return [..., terms, 2]: each offset, and a line of the block that comes next, to be fetched into the cache."""
    terms = np.arange(offsets.shape[-1])
    later = offsets[..., np.minimum(terms + lanes, len(terms) - 1)] + terms % lanes * lanes
    return np.stack([offsets, later], -1)


def _addend(low: Lowering, reference: int, out: Value) -> Value:
    """Return the second addend with its channels where the output has them."""
    value = low.native(reference)
    same = value.is_single and value.one.blocks == out.one.blocks and np.array_equal(value.channel, out.channel)
    if same:
        return value
    return low.gathered(value, low.shape(reference), like=out)


class Reader:
    """How a product reads its input: the offset of each of its terms, for each group."""

    is_planes = False
    buffers: Sequence[Buffer]

    def __init__(self, low: Lowering, step: Conv, value: Value) -> None:
        self.low, self.step, self.value = low, step, value
        self.buffers = value.buffers
        self.order = self._order()

    def _order(self) -> Places:
        """Return [groups, terms] of (channel of the group, tap): blocks outermost, so that taps meet in the cache."""
        groups, taps = self.step.groups, self.step.kernel[0] * self.step.kernel[1]
        each = self.value.channels // groups
        lanes = self.low.choices.lanes
        orders = []
        for group in range(groups):
            chosen = np.arange(each) + group * each
            source, channel = self.value.source[chosen], self.value.channel[chosen]
            # lexsort: the last key is the first to sort by.
            keys = [np.repeat(one, taps) for one in (channel % lanes, channel // lanes, source)]
            tap = np.tile(np.arange(taps), each)
            order = np.lexsort((keys[0], tap, keys[1], keys[2]))
            orders.append(order)
        return np.stack(orders)

    def tap_offsets(self) -> Places:
        """Return the offset of each tap of the kernel."""
        raise NotImplementedError

    def offsets(self) -> tuple[Places, int, int]:
        """Return [groups, terms] offsets, the distance of rows of outputs, and where the first output reads."""
        groups = self.step.groups
        channels = self.channel_offsets().reshape(groups, -1, 1)
        all_terms = (channels + self.tap_offsets()).reshape(groups, -1)
        return np.take_along_axis(all_terms, self.order, 1), self.row(), self.start()

    def channel_offsets(self) -> Places:
        """Return the offset of each channel."""
        return self.value.offsets()

    def row(self) -> int:
        """Return the distance of what neighbouring rows of outputs read."""
        return self.value.one.row

    def image(self) -> int:
        """Return the distance of images."""
        return self.value.one.image

    def start(self) -> int:
        """Return where the first output's first tap reads."""
        return self.value.one.start

    def is_flat(self, out: Buffer) -> bool:
        """Tell whether the inputs of all outputs follow each other, over rows and images."""
        return False

    def is_flat_image(self) -> bool:
        """Tell whether the inputs of all outputs of one image follow each other."""
        return False


class Direct(Reader):
    """Stride 1: the input itself, zeros around it where the convolution pads."""

    def tap_offsets(self) -> Places:
        """Taps lie rows and pixels apart."""
        one, (height, width), (dy, dx) = self.value.one, self.step.kernel, self.step.dilation
        grid = np.arange(height)[:, None] * dy * one.row + np.arange(width) * dx * one.lanes
        return grid.reshape(-1)

    def start(self) -> int:
        """The first tap lies in the halo."""
        one, (top, left, _, _) = self.value.one, self.step.padding
        return one.start - top * one.row - left * one.lanes

    def is_flat_image(self) -> bool:
        """A kernel of one tap reads pixel by pixel."""
        return self.step.kernel == (1, 1) and self.value.one.is_flat and self.step.padding == (0, 0, 0, 0)

    def is_flat(self, out: Buffer) -> bool:
        """The same over images."""
        return self.is_flat_image()


class Features(Reader):
    """A linear layer on an image: its features are channels and pixels."""

    def __init__(self, low: Lowering, step: Conv, value: Value) -> None:
        one = value.one
        self.area = one.height * one.width
        super().__init__(low, step, value)

    def _order(self) -> Places:
        return np.arange(self.value.channels * self.area)[None]

    def tap_offsets(self) -> Places:
        """Pixels of one image."""
        return pixels(self.value.one, images=False)


class Phases(Reader):
    """Any stride: a padded copy of the input with every phase in a plane of its own."""

    def __init__(self, low: Lowering, step: Conv, source: int) -> None:
        self.is_planes = low.is_planes(source, step)
        images, channels, height, width = low.shape(source)
        (kernel_h, kernel_w), (sy, sx), (dy, dx) = step.kernel, step.stride, step.dilation
        _, _, out_h, out_w = low.shape(step.output)
        self.phases = 1 if step.kernel == (1, 1) else sy * sx
        self.height = out_h + (kernel_h - 1) * dy // sy
        self.width = out_w + (kernel_w - 1) * dx // sx
        lanes = 1 if self.is_planes else low.choices.lanes
        value = None if self.is_planes else low.single(source)
        blocks = channels if value is None else value.one.blocks
        self.copy = Buffer(images, blocks, self.phases * self.height, self.width, lanes)
        low.buffers.append(self.copy)
        channel = np.arange(channels) if value is None else value.channel
        super().__init__(low, step, Value([self.copy], np.zeros(channels, np.int64), channel))
        fields = {"phases": self.phases, "sy": sy, "sx": sx, "top": step.padding[0], "left": step.padding[1]}
        sizes = {"out_h": self.height, "out_w": self.width}

        def emit() -> Sequence[Fields]:
            plane = {"plane": self.height * self.copy.row}
            if value is not None:
                return [
                    {"code": CODES.index("PHASES"), **origin(value.one), **target(self.copy), **fields, **sizes, **plane}
                ]
            given = {"tensor": low.external(source), "in_h": height, "in_w": width, "channels": channels}
            return [{"code": CODES.index("PHASE_PLANES"), **target(self.copy), **fields, **sizes, **plane, **given}]

        if value is None:
            low.external(source)
        low.add(emit, [] if value is None else value.buffers, [self.copy])

    def tap_offsets(self) -> Places:
        """Tap y * dy of the kernel is row y * dy // sy of phase y * dy % sy."""
        (height, width), (sy, sx), (dy, dx) = self.step.kernel, self.step.stride, self.step.dilation
        y, x = np.arange(height)[:, None] * dy, np.arange(width) * dx
        plane = self.height * self.copy.row
        grid = (y % sy * sx + x % sx) * plane + y // sy * self.copy.row + x // sx * self.copy.lanes
        return grid.reshape(-1)

    def is_flat_image(self) -> bool:
        """A kernel of one tap reads pixel by pixel."""
        return self.step.kernel == (1, 1)

    def is_flat(self, out: Buffer) -> bool:
        """The same over images."""
        return self.is_flat_image()


def _reader(low: Lowering, step: Conv) -> Reader:
    source = step.inputs[0]
    _, channels, height, width = low.shape(source)
    if step.kernel == (1, 1) and step.channels[0] == channels * height * width and height * width > 1:
        return Features(low, step, low.native(source))
    if step.stride != (1, 1) or low.is_planes(source, step):
        return Phases(low, step, source)
    value = low.native(source)
    for buffer in value.buffers:
        buffer.widen(step.padding)
    return Direct(low, step, value)


def _matrix(low: Lowering, step: Conv, reader: Reader) -> tuple[Any, Any]:
    """Return [groups, terms, out of the group, lanes filled] and the bias [out, lanes filled], in float32."""
    weight, bias = folded(step, low.constant)
    each, lanes = step.channels[1] // step.groups, low.choices.lanes
    blocks = -(-each // lanes)
    terms = weight.reshape(step.groups, each, -1).transpose(0, 2, 1)
    terms = np.take_along_axis(terms, reader.order[:, :, None], 1)
    matrix = lanewise(terms, blocks, lanes).astype(np.float32)
    return matrix, lanewise(bias.reshape(step.groups, each), blocks, lanes).astype(np.float32)


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


def _in_bands(
    low: Lowering, step: Conv, source: Buffer, out: Buffer, emit: Callable[[], Sequence[Fields]]
) -> bool:
    """Plan product and depthwise convolution as one, where nothing else reads what is between them."""
    writer = next((item for item in low.plan[low.run_start :] if item.bands is not None and source in item.writes), None)
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


def lower_winograd(low: Lowering, step: Conv) -> None:
    """Plan a 3x3 convolution as F(m x m, 3 x 3), blocks of tiles after one another."""
    m, lanes = low.choices.winograd, low.choices.lanes
    value, out = low.plain(step.inputs[0]), low.made(step.output)
    other = None if step.other is None else _addend(low, step.other, out)
    source, (inside, _) = value.one, step.channels
    weight, bias = folded(step, low.constant)
    blocks = out.one.blocks
    matrix = lanewise(winograd(weight, m), blocks, lanes).astype(np.float32)
    place = low.weights.put(packed(matrix, WIDTH, lanes))
    low.matrices[place] = matrix[None], blocks
    points, tiles = (m + 2) ** 2, -(-out.one.height // m) * -(-out.one.width // m)
    count = max(1, round(points * source.blocks * lanes * tiles / (128 * 1024)), 1)
    if out.one.images == 1:
        count = -(-count // low.choices.num_threads) * low.choices.num_threads
    count = min(count, tiles)
    least, most = tiles // count, -(-tiles // count)
    scratch = Buffer(1, low.choices.num_threads, 1, points * most * (source.blocks + 4), lanes)
    low.buffers.append(scratch)
    channel = np.arange(inside)
    lists = [channel // lanes * size * lanes + channel % lanes for size in range(least, least + 2)]
    ending = low.ending(step)
    fixed = {
        "code": CODES.index("WINOGRAD"), "kind": m, "band": count, "min_tiles": least, "depth": inside, "nr": WIDTH,
        "offsets": low.tables.put(with_lines(np.stack(lists), lanes)), "out_at": low.tables.put(np.arange(most) * lanes), "weight": place,
        "zeros": low.weights.put(np.zeros(4 * lanes)), "bias": low.weights.put(lanewise(bias, blocks, lanes)),
        "top": step.padding[0], "left": step.padding[1],
    }  # fmt: skip

    def emit() -> Sequence[Fields]:
        fields = {
            **origin(source), **target(out.one), **ending, **fixed, "scratch": scratch.start,
            "scratch_size": scratch.block,
        }  # fmt: skip
        if other is not None:
            fields |= {
                "other": other.one.start, "other_image": other.one.image, "other_block": other.one.block,
                "other_row": other.one.row,
            }  # fmt: skip
        return [fields]

    low.add(emit, [source, *([] if other is None else other.buffers)], [out.one, scratch])
