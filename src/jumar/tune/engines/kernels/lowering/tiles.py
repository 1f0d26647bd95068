"""Convolutions by Winograd's algorithm, tiles of m x m outputs at a time, and where it is worth it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jumar.tune.engines.kernels.lowering.layout import Buffer
from jumar.tune.engines.kernels.lowering.lower import Fields, Lowering, origin, target
from jumar.tune.engines.kernels.lowering.products import CACHE_FLOATS, PART, WIDTH, addend, with_lines
from jumar.tune.engines.kernels.lowering.weights import folded, lanewise, packed, winograd
from jumar.tune.engines.kernels.program import CODES
from jumar.tune.engines.kernels.recognise.steps import Conv

BYTES_A_CYCLE = 3.0
"""Of weights from beyond the second-level cache; with the next three measured on a Xeon with AVX-512 (Cascade Lake)."""
TILE_BYTES_A_CYCLE = {2: 3.4, 4: 1.3}
"""Of tiles moved to their points and back through memory, by tile size."""
FULL_ROW, ROW_PENALTY = 12, 1.6
"""Rows of fewer pixels leave registers of a direct convolution empty, and it takes so many times as long."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """A way of computing a 3x3 convolution: directly (`m` is 0), or tile by tile."""

    m: int
    phased: bool = False
    """All tiles to their points, then a product a point, then all tiles back, each through memory; else blocks of
    tiles that stay in the second-level cache, each of which reads all weights."""


def tiling_of(low: Lowering, step: Conv) -> Tiling:
    """Return how a convolution is expected to be fastest.

    A model of the time in cycles, not a measurement: builds with equal settings must compute alike.
    """
    if not step.is_square3 or min(step.channels) < low.choices.lanes:
        return Tiling(0)
    sizes = [m for m in (2, 4) if m <= low.choices.winograd]
    ways = [Tiling(0), *(Tiling(m, phased) for m in sizes for phased in (False, True))]
    return min(ways, key=lambda way: _cost(low, step, way))


def _cost(low: Lowering, step: Conv, way: Tiling) -> float:
    """Return the greater of the time to multiply and the time to read the weights, and a part of the smaller."""
    (inside, outside), (images, _, height, width) = step.channels, low.shape(step.output)
    moved = 0.0
    if not way.m:
        products = images * height * width * 9 * inside * outside
        multiply = products if width >= FULL_ROW else round(products * ROW_PENALTY)
        read = 9 * inside * outside
    else:
        image, points = -(-height // way.m) * -(-width // way.m), (way.m + 2) ** 2
        tiles = images * image
        multiply = tiles * points * inside * outside
        read = points * inside * outside
        if way.phased:
            moved = 4 * tiles * points * (inside + outside) / TILE_BYTES_A_CYCLE[way.m]
        else:
            multiply += tiles * points * 6 * (inside + outside)
            read *= images * num_tile_blocks(low, step, image, way.m)
    times = multiply / (2 * low.choices.lanes), read * 4 / BYTES_A_CYCLE
    return max(times) + 0.3 * min(times) + moved


def num_tile_blocks(low: Lowering, step: Conv, tiles: int, m: int) -> int:
    """Return into how many blocks an image's tiles are cut: the moved inputs of one stay in the second-level cache.

    A single image is cut into equally many for every thread.
    """
    threads = low.choices.num_threads if low.shape(step.output)[0] == 1 else 1
    count = max(1, round((m + 2) ** 2 * step.channels[0] * tiles / (4 * CACHE_FLOATS / 3)))
    return min(tiles, -(-count // threads) * threads)


def lower_phased(low: Lowering, step: Conv, m: int) -> None:
    """Plan a 3x3 convolution as F(m x m, 3 x 3) in three operations: all tiles in, a product a point, all tiles out."""
    lanes = low.choices.lanes
    value, out = low.plain(step.inputs[0]), low.made(step.output)
    other = None if step.other is None else addend(low, step.other, out)
    source, (inside, _) = value.one, step.channels
    weight, bias = folded(step, low.constant)
    blocks = out.one.blocks
    matrix = lanewise(winograd(weight, m), blocks, lanes).astype(np.float32)
    place = low.weights.put(np.concatenate([packed(point, WIDTH, lanes) for point in matrix]), shared=False)
    low.matrices[place] = matrix, blocks
    points, tiles = (m + 2) ** 2, -(-out.one.height // m) * -(-out.one.width // m)
    count = out.one.images * tiles
    # One tile more than there are: points at distances of powers of two would share sets of the caches.
    moved = Buffer(1, points * source.blocks, 1, count + 1, lanes)
    product = Buffer(1, points * blocks, 1, count + 1, lanes)
    low.buffers.extend([moved, product])
    channel = np.arange(inside)
    ending = low.ending(step)
    line = low.tables.put(np.arange(count) * lanes)
    zeros, at_bias = low.weights.put(np.zeros(points * blocks * lanes)), low.weights.put(lanewise(bias, blocks, lanes))

    def read() -> Sequence[Fields]:
        return [{
            **target(moved), **origin(source), "code": CODES.index("TILES_IN"), "kind": m, "images": source.images,
            "blocks": source.blocks, "out_image": tiles * lanes, "plane": source.blocks * moved.block,
            "out_h": out.one.height, "out_w": out.one.width, "top": step.padding[0], "left": step.padding[1],
        }]  # fmt: skip

    def multiply() -> Sequence[Fields]:
        point = np.arange(points)[:, None] * source.blocks * moved.block
        offsets = point + channel // lanes * moved.block + channel % lanes
        return [{
            **target(product), **low.ending(None), "code": CODES.index("PRODUCT"), "in": moved.start, "images": 1,
            "groups": points, "blocks": blocks, "depth": inside,
            "offsets": low.tables.put(with_lines(offsets, lanes)), "weight": place, "bias": zeros, "part": PART,
            "rows": 1, "row": count, "nr": WIDTH, "chunk": max(14, CACHE_FLOATS // inside), "out_at": line,
        }]  # fmt: skip

    def write() -> Sequence[Fields]:
        fields = {
            **origin(product), **target(out.one), **ending, "code": CODES.index("TILES_OUT"), "kind": m,
            "in_image": tiles * lanes, "plane": blocks * product.block, "bias": at_bias,
        }  # fmt: skip
        return [fields if other is None else fields | _of_addend(other.one)]

    low.add(read, [source], [moved])
    low.add(multiply, [moved], [product])
    low.add(write, [product, *([] if other is None else other.buffers)], [out.one])


def _of_addend(buffer: Buffer) -> Fields:
    return {
        "other": buffer.start, "other_image": buffer.image, "other_block": buffer.block, "other_row": buffer.row,
    }  # fmt: skip


def lower_winograd(low: Lowering, step: Conv, m: int) -> None:
    """Plan a 3x3 convolution as F(m x m, 3 x 3), blocks of tiles after one another."""
    lanes = low.choices.lanes
    value, out = low.plain(step.inputs[0]), low.made(step.output)
    other = None if step.other is None else addend(low, step.other, out)
    source, (inside, _) = value.one, step.channels
    weight, bias = folded(step, low.constant)
    blocks = out.one.blocks
    matrix = lanewise(winograd(weight, m), blocks, lanes).astype(np.float32)
    place = low.weights.put(packed(matrix, WIDTH, lanes), shared=False)
    low.matrices[place] = matrix[None], blocks
    points, tiles = (m + 2) ** 2, -(-out.one.height // m) * -(-out.one.width // m)
    count = num_tile_blocks(low, step, tiles, m)
    least, most = tiles // count, -(-tiles // count)
    scratch = Buffer(1, low.choices.num_threads, 1, points * most * (source.blocks + 4), lanes)
    low.buffers.append(scratch)
    channel = np.arange(inside)
    lists = [channel // lanes * size * lanes + channel % lanes for size in range(least, least + 2)]
    ending = low.ending(step)
    fixed = {
        "code": CODES.index("WINOGRAD"), "kind": m, "band": count, "min_tiles": least, "depth": inside, "nr": WIDTH,
        "offsets": low.tables.put(with_lines(np.stack(lists), lanes)), "weight": place,
        "out_at": low.tables.put(np.arange(most) * lanes),
        "zeros": low.weights.put(np.zeros(4 * lanes)), "bias": low.weights.put(lanewise(bias, blocks, lanes)),
        "top": step.padding[0], "left": step.padding[1],
    }  # fmt: skip

    def emit() -> Sequence[Fields]:
        fields = {
            **origin(source), **target(out.one), **ending, **fixed, "scratch": scratch.start,
            "scratch_size": scratch.block,
        }  # fmt: skip
        return [fields if other is None else fields | _of_addend(other.one)]

    low.add(emit, [source, *([] if other is None else other.buffers)], [out.one, scratch])
