"""Where values lie: blocked buffers with room for zeros around the pixels, and one arena for all of them.

A buffer holds `blocks` times `lanes` channels as [block][image][row][pixel][lane], with a halo of zeros around every
image. A value is a choice of channels from buffers, so that concatenating, splitting and shuffling channels is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Buffer:
    """Memory of one value. `halo` is top, left, bottom, right; `offset` is known after `allocate`."""

    images: int
    blocks: int
    height: int
    width: int
    lanes: int
    halo: tuple[int, int, int, int] = (0, 0, 0, 0)
    offset: int = -1
    first: int = -1
    last: int = -1
    alike: list[Buffer] = field(default_factory=list)
    """Buffers that one value takes channels from: they keep one halo, so that their strides are equal."""

    @property
    def row(self) -> int:
        """Distance of rows, in floats."""
        return (self.halo[1] + self.width + self.halo[3]) * self.lanes

    @property
    def image(self) -> int:
        """Distance of images."""
        return (self.halo[0] + self.height + self.halo[2]) * self.row

    @property
    def block(self) -> int:
        """Distance of channel blocks."""
        return self.images * self.image

    @property
    def size(self) -> int:
        """Floats in all."""
        return self.blocks * self.block

    @property
    def start(self) -> int:
        """Where the first pixel lies in the arena."""
        return self.offset + self.halo[0] * self.row + self.halo[1] * self.lanes

    @property
    def is_flat(self) -> bool:
        """Whether the pixels of all rows and images follow each other."""
        return self.halo == (0, 0, 0, 0)

    def widen(self, halo: tuple[int, int, int, int]) -> None:
        """Ask for a halo of at least this size."""
        wide = tuple(map(max, self.halo, halo))
        self.halo = (wide[0], wide[1], wide[2], wide[3])

    def used(self, position: int) -> None:
        """Note that operation `position` reads or writes it."""
        self.first = position if self.first < 0 else min(self.first, position)
        self.last = max(self.last, position)


@dataclass(slots=True)
class Value:
    """Channels of buffers: channel c is lane `channel[c]` (counted over blocks) of `buffers[source[c]]`."""

    buffers: Sequence[Buffer]
    source: Places
    channel: Places

    @classmethod
    def whole(cls, buffer: Buffer, channels: int, groups: int = 1) -> Value:
        """Return the value of `channels` channels in order, each of the groups beginning a new block."""
        each, room = channels // groups, buffer.blocks * buffer.lanes // groups
        channel = (np.arange(groups)[:, None] * room + np.arange(each)).reshape(-1)
        return cls([buffer], np.zeros(channels, np.int64), channel)

    @property
    def one(self) -> Buffer:
        """The first of its buffers: all have the same strides."""
        return self.buffers[0]

    @property
    def channels(self) -> int:
        """How many channels it has."""
        return len(self.channel)

    @property
    def is_single(self) -> bool:
        """Whether all channels come from one buffer, each once, and fill it as far as they can."""
        distinct = len(np.unique(self.channel)) == self.channels
        return len(self.buffers) == 1 and distinct and self.one.blocks <= -(-self.channels // self.one.lanes) + 1

    @property
    def is_plain(self) -> bool:
        """Whether the channels are in order without gaps."""
        return self.is_single and bool((self.channel == np.arange(self.channels)).all())

    def pick(self, channels: Places) -> Value:
        """Return some of its channels."""
        return _compact(self.buffers, self.source[channels], self.channel[channels])

    def offsets(self) -> Places:
        """Return where each channel's first pixel lies, from the start of the first buffer."""
        starts = np.array([buffer.start - self.one.start for buffer in self.buffers])
        blocks = np.array([buffer.block for buffer in self.buffers])
        lanes = self.one.lanes
        places: Places = starts[self.source] + self.channel // lanes * blocks[self.source] + self.channel % lanes
        return places


def joined(values: Sequence[Value]) -> Value:
    """Return the channels of several values, one value after the other."""
    buffers = list(dict.fromkeys(buffer for value in values for buffer in value.buffers))
    number = {buffer: place for place, buffer in enumerate(buffers)}
    source = [np.array([number[buffer] for buffer in value.buffers])[value.source] for value in values]
    for buffer in buffers:
        buffer.alike.extend(other for other in buffers if other is not buffer)
    return _compact(buffers, np.concatenate(source), np.concatenate([value.channel for value in values]))


def _compact(buffers: Sequence[Buffer], source: Places, channel: Places) -> Value:
    kept, source = np.unique(source, return_inverse=True)
    return Value([buffers[place] for place in kept], source, channel)


def equalize(buffers: Iterable[Buffer]) -> None:
    """Give buffers that belong together the greatest halo of any of them."""
    seen: set[int] = set()
    for buffer in buffers:
        group, stack = [], [buffer]
        while stack:
            one = stack.pop()
            if id(one) not in seen:
                seen.add(id(one))
                group.append(one)
                stack.extend(one.alike)
        for one in group:
            for other in group:
                one.widen(other.halo)


def allocate(buffers: Iterable[Buffer]) -> int:
    """Give every buffer its offset; buffers that live at different times share memory. Returns the arena's size.

    First fit, largest first: each takes the lowest gap among those placed before that live at the same time.
    """
    placed: list[Buffer] = []
    for buffer in sorted((one for one in buffers if one.first >= 0), key=lambda one: -one.size):
        alive = sorted(
            (one for one in placed if one.first <= buffer.last and buffer.first <= one.last),
            key=lambda one: one.offset,
        )
        offset = 0
        for other in alive:
            if other.offset - offset >= _room(buffer.size):
                break
            offset = max(offset, other.offset + _room(other.size))
        buffer.offset = offset
        placed.append(buffer)
    return max((one.offset + _room(one.size) for one in placed), default=0)


def _room(size: int) -> int:
    """Round up to 64 bytes, and one cache line more, so that planes of equal size do not share cache sets."""
    return -(-size // 16) * 16 + 16
