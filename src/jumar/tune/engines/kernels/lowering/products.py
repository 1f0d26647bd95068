"""Convolutions as products over lists of offsets."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from jumar.tune.engines.kernels.lowering.layout import Places, Value
from jumar.tune.engines.kernels.lowering.lower import Fields, Lowering, pixels, target
from jumar.tune.engines.kernels.lowering.readers import Reader, reader_of
from jumar.tune.engines.kernels.lowering.weights import folded, lanewise, packed
from jumar.tune.engines.kernels.program import CODES
from jumar.tune.engines.kernels.recognise.steps import Conv

CACHE_FLOATS = 96 * 1024
"""Of a chunk's inputs: 384 KiB of a second-level cache of 1 MiB or more."""
WIDTH = 2
"""Blocks of output channels a panel, before other widths are tried."""
MAX_WIDTH = 4
PART = 1 << 20
"""Terms of a sum that are added before the next pixels are, before smaller ones are tried; a multiple of 128."""


def lower_product(low: Lowering, step: Conv) -> None:
    """Plan a convolution as a product over offsets into its input."""
    out = low.made(step.output, step.groups)
    reader = reader_of(low, step)
    matrix, bias = _matrix(low, step, reader)
    other = None if step.other is None else addend(low, step.other, out)
    blocks = out.one.blocks // step.groups
    place = low.weights.put(np.concatenate([packed(group, WIDTH, low.choices.lanes) for group in matrix]), shared=False)
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
            "depth": depth, "offsets": low.tables.put(with_lines(offsets, low.choices.lanes)), "weight": place,
            "bias": low.weights.put(bias), "part": PART,
            "rows": 1 if is_flat or one_row else out.one.height, "row": count, "nr": WIDTH,
            "planes": int(reader.is_planes), "chunk": max(14, CACHE_FLOATS * step.kernel[0] * step.kernel[1] // depth),
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


def _matrix(low: Lowering, step: Conv, reader: Reader) -> tuple[Any, Any]:
    """Return [groups, terms, out of the group, lanes filled] and the bias [out, lanes filled], in float32."""
    weight, bias = folded(step, low.constant)
    each, lanes = step.channels[1] // step.groups, low.choices.lanes
    blocks = -(-each // lanes)
    terms = weight.reshape(step.groups, each, -1).transpose(0, 2, 1)
    terms = np.take_along_axis(terms, reader.order[:, :, None], 1)
    matrix = lanewise(terms, blocks, lanes).astype(np.float32)
    return matrix, lanewise(bias.reshape(step.groups, each), blocks, lanes).astype(np.float32)


def with_lines(offsets: Places, lanes: int) -> Places:
    """Return [..., terms, 2]: each offset, and a line of the block that comes next, to be fetched into the cache."""
    terms = np.arange(offsets.shape[-1])
    later = offsets[..., np.minimum(terms + lanes, len(terms) - 1)] + terms % lanes * lanes
    return np.stack([offsets, later], -1)


def addend(low: Lowering, reference: int, out: Value) -> Value:
    """Return the second addend with its channels where the output has them."""
    value = low.native(reference)
    same = value.is_single and value.one.blocks == out.one.blocks and np.array_equal(value.channel, out.channel)
    if same:
        return value
    return low.gathered(value, low.shape(reference), like=out)
