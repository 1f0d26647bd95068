"""How products read their inputs: the offset of each term of a sum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jumar.tune.engines.kernels.lowering.layout import Buffer, Places, Value
from jumar.tune.engines.kernels.lowering.lower import Fields, Lowering, origin, pixels, target
from jumar.tune.engines.kernels.program import CODES
from jumar.tune.engines.kernels.recognise.steps import Conv


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
                    {
                        "code": CODES.index("PHASES"),
                        **origin(value.one),
                        **target(self.copy),
                        **fields,
                        **sizes,
                        **plane,
                    }
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


def reader_of(low: Lowering, step: Conv) -> Reader:
    """Return how a convolution reads its input, planning the copy that it needs."""
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
