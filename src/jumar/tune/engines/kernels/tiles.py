"""Convolutions by Winograd's algorithm, tiles of m x m outputs at a time, and where it is worth it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jumar.tune.engines.kernels.fields import CODES
from jumar.tune.engines.kernels.layout import Buffer
from jumar.tune.engines.kernels.lower import Fields, Lowering, origin, target
from jumar.tune.engines.kernels.products import CACHE_FLOATS, WIDTH, addend, with_lines
from jumar.tune.engines.kernels.steps import Conv
from jumar.tune.engines.kernels.weights import folded, lanewise, packed, winograd

BYTES_A_CYCLE = 3.0
"""Of weights from beyond the second-level cache; with the next two measured on a Xeon with AVX-512 (Cascade Lake)."""
FULL_ROW, ROW_PENALTY = 12, 1.6
"""Rows of fewer pixels leave registers of a direct convolution empty, and it takes so many times as long."""


def winograd_tile(low: Lowering, step: Conv) -> int:
    """Return the tile size of Winograd's algorithm that a convolution is expected to be fastest with; 0: without it.

    A model of the time in cycles, not a measurement: builds with equal settings must compute alike.
    """
    if not step.is_square3 or min(step.channels) < low.choices.lanes:
        return 0
    costs = {m: _cost(low, step, m) for m in (0, 2, 4) if m <= low.choices.winograd}
    return min(costs, key=costs.__getitem__)


def _cost(low: Lowering, step: Conv, m: int) -> float:
    """Return the greater of the time to multiply and the time to read the weights, and a part of the smaller."""
    (inside, outside), (images, _, height, width) = step.channels, low.shape(step.output)
    if m:
        tiles, points = images * -(-height // m) * -(-width // m), (m + 2) ** 2
        multiply = tiles * points * (inside * outside + 6 * (inside + outside))
        read = points * inside * outside * num_tile_blocks(inside, tiles, m)
    else:
        products = images * height * width * 9 * inside * outside
        multiply = products if width >= FULL_ROW else round(products * ROW_PENALTY)
        read = 9 * inside * outside
    times = multiply / (2 * low.choices.lanes), read * 4 / BYTES_A_CYCLE
    return max(times) + 0.3 * min(times)


def num_tile_blocks(inside: int, tiles: int, m: int) -> int:
    """Return into how many blocks tiles are cut, so that the moved inputs of one stay in the second-level cache."""
    return max(1, round((m + 2) ** 2 * inside * tiles / (4 * CACHE_FLOATS / 3)))


def lower_winograd(low: Lowering, step: Conv, m: int) -> None:
    """Plan a 3x3 convolution as F(m x m, 3 x 3), blocks of tiles after one another."""
    lanes = low.choices.lanes
    value, out = low.plain(step.inputs[0]), low.made(step.output)
    other = None if step.other is None else addend(low, step.other, out)
    source, (inside, _) = value.one, step.channels
    weight, bias = folded(step, low.constant)
    blocks = out.one.blocks
    matrix = lanewise(winograd(weight, m), blocks, lanes).astype(np.float32)
    place = low.weights.put(packed(matrix, WIDTH, lanes))
    low.matrices[place] = matrix[None], blocks
    points, tiles = (m + 2) ** 2, -(-out.one.height // m) * -(-out.one.width // m)
    count = num_tile_blocks(inside, tiles, m)
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
        if other is not None:
            fields |= {
                "other": other.one.start, "other_image": other.one.image, "other_block": other.one.block,
                "other_row": other.one.row,
            }  # fmt: skip
        return [fields]

    low.add(emit, [source, *([] if other is None else other.buffers)], [out.one, scratch])
