"""Steps as a program: where values lie, which operation computes each step, and what is packed for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jumar.tune.engines.kernels.lowering.layout import Buffer, Places, Value, allocate, equalize
from jumar.tune.engines.kernels.lowering.weights import Constant
from jumar.tune.engines.kernels.program import CODES, FIELDS, PLACE, Blob, Program
from jumar.tune.engines.kernels.recognise.steps import POSTS, Conv, Step, Steps
from jumar.tune.graph import Graph, Reference

Fields = dict[str, int]
MAX_PLANES = 4
"""An input of at most so many channels is read as planes of single numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What is chosen for a whole graph."""

    lanes: int
    num_threads: int
    """That share each operation; 1 when every thread takes whole images."""
    winograd: int = 0
    """Tile size of Winograd's algorithm: 0 (never), 2 or 4."""
    images: int = 0
    """1: the batch image by image, every thread taking whole ones; 0: the whole batch at once."""
    fuse: bool = True
    """Depthwise convolutions in bands together with the product before them."""


@dataclass(slots=True)
class Planned:
    """One operation, or several that belong together: its fields are known once all buffers have their place."""

    emit: Callable[[], Sequence[Fields]]
    reads: Sequence[Buffer] = ()
    writes: Sequence[Buffer] = ()
    bands: Callable[[], Fields] | None = None
    """The fields of a product that may be computed in bands, one image at a time."""


@dataclass(slots=True, kw_only=True)
class Lowering:
    """A graph on its way to a program."""

    graph: Graph
    steps: Steps
    constant: Constant
    choices: Choices
    weights: Blob = field(default_factory=lambda: Blob(np.float32))
    tables: Blob = field(default_factory=lambda: Blob(np.int32))
    values: dict[Reference, Value] = field(default_factory=dict)
    shapes: dict[Reference, tuple[int, int, int, int]] = field(default_factory=dict)
    plan: list[Planned] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    externals: list[Reference] = field(default_factory=list)
    """Values that are ordinary tensors, by their number in `Run.given`."""
    written: list[Reference] = field(default_factory=list)
    """Values of the kernels that are written to ordinary tensors."""
    contiguous: list[Reference] = field(default_factory=list)
    """Ordinary tensors that are read as contiguous ones."""
    run_start: int = 0
    """Where in the plan the run begins that is being planned."""
    uses: Counter[Reference] = field(default_factory=Counter)
    """How many steps, and outputs of the graph, read each value."""
    matrices: dict[int, Any] = field(default_factory=dict)
    """The weights of a product before packing, by where they are packed: other widths are tried on them."""

    def shape(self, value: Reference) -> tuple[int, int, int, int]:
        """Return images, channels, height and width of a value behind aliases."""
        if value not in self.shapes:
            spec = self.graph.spec_of(value)
            assert spec is not None
            rest = (*spec.shape[2:], 1, 1)[:2]
            self.shapes[value] = (spec.shape[0], spec.shape[1], rest[0], rest[1])
        return self.shapes[value]

    def buffer(self, shape: tuple[int, int, int, int], blocks: int = 0) -> Buffer:
        """Return a new buffer for a value of this shape."""
        lanes = self.choices.lanes
        made = Buffer(shape[0], blocks or -(-shape[1] // lanes), shape[2], shape[3], lanes)
        self.buffers.append(made)
        return made

    def made(self, reference: Reference, groups: int = 1) -> Value:
        """Return a new value for `reference`, in a buffer of its own."""
        shape = self.shape(reference)
        blocks = groups * -(-(shape[1] // groups) // self.choices.lanes)
        value = Value.whole(self.buffer(shape, blocks), shape[1], groups)
        self.values[reference] = value
        return value

    def external(self, reference: Reference) -> int:
        """Return the number of a value that is an ordinary tensor."""
        if reference not in self.externals:
            self.externals.append(reference)
        return self.externals.index(reference)

    def add(
        self,
        emit: Callable[[], Sequence[Fields]],
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
        bands: Callable[[], Fields] | None = None,
    ) -> None:
        """Plan an operation."""
        self.plan.append(Planned(emit, reads, writes, bands))

    def is_planes(self, source: Reference, step: Conv) -> bool:
        """Tell whether a convolution reads an ordinary tensor of few channels, without blocks."""
        return source not in self.values and step.channels[0] <= MAX_PLANES and step.groups == 1

    def native(self, reference: Reference) -> Value:
        """Return a value in blocked layout, loading it where it is an ordinary tensor."""
        if reference not in self.values:
            value = self.made(reference)
            tensor, shape, buffer = self.external(reference), self.shape(reference), value.one
            self.add(
                lambda: [{"code": CODES.index("LOAD"), "tensor": tensor, "channels": shape[1], **target(buffer)}],
                [],
                [buffer],
            )
        return self.values[reference]

    def plain(self, reference: Reference) -> Value:
        """Return the value in one buffer with its channels in order, copying it where it is not."""
        value = self.native(reference)
        if value.is_plain:
            return value
        self.values[reference] = self.gathered(value, self.shape(reference))
        return self.values[reference]

    def single(self, reference: Reference) -> Value:
        """Return the value in one buffer, in any order of the channels."""
        value = self.native(reference)
        return value if value.is_single else self.plain(reference)

    def gathered(
        self,
        value: Value,
        shape: tuple[int, int, int, int],
        scale: Any = 1.0,
        shift: Any = 0.0,
        step: Step | None = None,
        like: Value | None = None,
    ) -> Value:
        """Return a copy of a value, each channel scaled and shifted: channels in order, or where `like` has them."""
        buffer = self.buffer(shape, 0 if like is None else like.one.blocks)
        made = Value.whole(buffer, shape[1]) if like is None else Value([buffer], like.source, like.channel)
        room = buffer.blocks * self.choices.lanes
        weight, bias = np.zeros(room), np.zeros(room)
        weight[made.channel], bias[made.channel] = scale, shift
        ending = self.ending(step)

        def emit() -> Sequence[Fields]:
            return [
                {
                    "code": CODES.index("GATHER"), **origin(value.one), **target(buffer), **ending,
                    "offsets": self.tables.put(_lane_offsets(value, made, room)), "weight": self.weights.put(weight),
                    "bias": self.weights.put(bias),
                }
            ]  # fmt: skip

        self.add(emit, value.buffers, [buffer])
        return made

    def ending(self, step: Step | None) -> Fields:
        """Return the fields of a step's activation."""
        low, high = (-np.inf, np.inf) if step is None else (step.low, step.high)
        post = "none" if step is None else step.post
        return {"clamp": self.weights.put([low, high]), "post": POSTS.index(post)}

    def stored(self, reference: Reference) -> None:
        """Plan that a value is written to an ordinary tensor."""
        value, tensor, shape = self.values[reference], self.external(reference), self.shape(reference)
        self.written.append(reference)

        def emit() -> Sequence[Fields]:
            one = value.one
            return [
                {
                    "code": CODES.index("STORE"), "tensor": tensor, **origin(one), "images": shape[0],
                    "channels": shape[1], "out_h": shape[2], "out_w": shape[3],
                    "offsets": self.tables.put(value.offsets()),
                }
            ]  # fmt: skip

        self.add(emit, value.buffers, [])


def _lane_offsets(value: Value, made: Value, room: int) -> Places:
    """Return where every lane of `made` is read; lanes of no channel go on from the block's first, where they can."""
    lanes, offsets = made.one.lanes, np.zeros(room, np.int64)
    offsets[made.channel] = value.offsets()
    first = dict(zip(made.channel.tolist(), value.channel.tolist(), strict=True))
    for lane in sorted(set(range(room)) - set(first)):
        begin = lane - lane % lanes
        aligned = first.get(begin, 1) % lanes == 0
        offsets[lane] = offsets[begin] + lane - begin if aligned else 0
    return offsets


def origin(buffer: Buffer) -> Fields:
    """Return the fields of what is read."""
    return {
        "in": buffer.start, "in_image": buffer.image, "in_block": buffer.block, "in_row": buffer.row,
        "in_h": buffer.height, "in_w": buffer.width, "in_blocks": buffer.blocks,
    }  # fmt: skip


def target(buffer: Buffer) -> Fields:
    """Return the fields of what is written."""
    return {
        "out": buffer.start, "out_image": buffer.image, "out_block": buffer.block, "out_row": buffer.row,
        "out_h": buffer.height, "out_w": buffer.width, "images": buffer.images, "blocks": buffer.blocks,
    }  # fmt: skip


def pixels(buffer: Buffer, *, images: bool) -> Places:
    """Return where each pixel lies, from the first: row by row, of all images or of one."""
    rows = np.arange(buffer.height)[:, None] * buffer.row + np.arange(buffer.width) * buffer.lanes
    if not images:
        return rows.reshape(-1)
    return (np.arange(buffer.images)[:, None] * buffer.image + rows.reshape(-1)).reshape(-1)


def halo_of(buffer: Buffer) -> Fields:
    """Return the operation that writes zeros around a buffer's pixels."""
    top, left, bottom, right = buffer.halo
    return {
        "code": CODES.index("HALO"), **target(buffer), "top": top, "left": left, "bottom": bottom, "right": right,
        "barrier": 0,
    }  # fmt: skip


def finished(lowering: Lowering, script: Mapping[str, Any]) -> tuple[Program, list[int]]:
    """Give every buffer its place and every operation its fields.

    Returns the program, and for each planned item the number of its first operation.
    """
    equalize(lowering.buffers)
    for position, item in enumerate(lowering.plan):
        for buffer in (*item.reads, *item.writes):
            buffer.used(position)
    size = allocate(lowering.buffers)
    rows: list[list[int]] = []
    starts = []
    for item in lowering.plan:
        starts.append(len(rows))
        emitted = [halo_of(buffer) for buffer in item.writes if not buffer.is_flat] + list(item.emit())
        rows.extend(_row(fields) for fields in emitted)
    starts.append(len(rows))
    operations = np.array(rows, np.int64).reshape(-1, len(FIELDS))
    program = Program(
        operations=operations, weights=lowering.weights.joined(), tables=lowering.tables.joined(), arena_size=size,
        script=script,
    )  # fmt: skip
    return program, starts


def _row(fields: Fields) -> list[int]:
    row = [0] * len(FIELDS)
    row[PLACE["barrier"]] = 1
    row[PLACE["other"]] = -1
    for name, value in fields.items():
        row[PLACE[name]] = int(value)
    return row
