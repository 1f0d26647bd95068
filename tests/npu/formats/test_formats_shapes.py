"""How much memory a format takes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

from jumar.npu.formats import (  # noqa: E402  # the formats need the device
    BASE_FORMATS,
    PRIVATE_FORMATS,
    Format,
    storage_bytes,
    storage_shape,
)
from jumar.npu.formats.names import known  # noqa: E402

SIZES = st.integers(min_value=0, max_value=70)
THREE_D = {Format.NDC1HWC0, Format.FRACTAL_Z_3D}
TWO_D = sorted(PRIVATE_FORMATS - THREE_D)


def shapes(low: int, high: int):
    return st.lists(SIZES, min_size=low, max_size=high).map(tuple)


@pytest.mark.parametrize(
    ("shape", "format", "itemsize", "expected"),
    [
        ((2, 3, 4, 5), Format.NC1HWC0, 2, (2, 1, 4, 5, 16)),
        ((2, 17, 4, 5), Format.NC1HWC0, 4, (2, 2, 4, 5, 16)),
        ((24,), Format.NC1HWC0, 4, (1, 2, 1, 1, 16)),
        ((20, 3, 7, 7), Format.FRACTAL_Z, 2, (49, 2, 16, 16)),
        ((33, 20), Format.FRACTAL_NZ, 2, (2, 3, 16, 16)),
        ((33, 20), Format.FRACTAL_NZ, 4, (2, 3, 16, 16)),
        ((33, 20), Format.FRACTAL_NZ, 1, (1, 3, 16, 32)),
        ((6, 33, 20), Format.FRACTAL_NZ, 2, (6, 2, 3, 16, 16)),
        ((5,), Format.FRACTAL_NZ, 2, (1, 1, 16, 16)),
        ((2, 17, 3, 4, 5), Format.NDC1HWC0, 2, (2, 3, 2, 4, 5, 16)),
        ((20, 3, 2, 7, 7), Format.FRACTAL_Z_3D, 2, (98, 2, 16, 16)),
        ((2, 3, 4, 5), Format.NCHW, 2, (2, 3, 4, 5)),
    ],
)
def test_storage_shapes_are_those_of_torch_npu(shape, format, itemsize, expected):
    assert storage_shape(shape, format, itemsize) == expected


@given(shape=shapes(0, 4), format=st.sampled_from(TWO_D), itemsize=st.sampled_from([1, 2, 4, 8]))
def test_padding_never_loses_an_item_and_comes_in_whole_blocks(shape, format, itemsize):
    stored = storage_shape(shape, format, itemsize)
    assert math.prod(stored) >= math.prod(shape)
    assert stored[-1] in (2, 4, 16, 32)
    assert storage_bytes(shape, format, itemsize) == math.prod(stored) * itemsize


@given(shape=shapes(4, 4), itemsize=st.sampled_from([2, 4]))
def test_blocks_of_channels_pad_channels_only(shape, itemsize):
    n, c, h, w = shape
    assert storage_bytes(shape, Format.NC1HWC0, itemsize) == n * math.ceil(c / 16) * 16 * h * w * itemsize


@given(rows=st.integers(1, 200).map(lambda size: size * 16), columns=st.integers(1, 200).map(lambda size: size * 16))
def test_whole_blocks_need_no_padding(rows, columns):
    assert math.prod(storage_shape((rows, columns), Format.FRACTAL_NZ, 2)) == rows * columns


@given(shape=shapes(0, 4), format=st.sampled_from(sorted(BASE_FORMATS - {Format.NDHWC})))
def test_dense_formats_have_no_padding(shape, format):
    assert math.prod(storage_shape(shape, format)) == math.prod(shape)


@pytest.mark.parametrize("format", sorted(THREE_D))
def test_three_dimensional_formats_refuse_other_ranks(format):
    with pytest.raises(RuntimeError, match=r"cannot convert to .* it takes 5 dimensions"):
        storage_shape((2, 3, 4, 5), format)


def test_a_blocked_format_refuses_five_dimensions():
    with pytest.raises(RuntimeError, match="should not be greater than 4, which is 5"):
        storage_shape((1, 2, 3, 4, 5), Format.NC1HWC0)


@pytest.mark.parametrize("number", [-1, 5, 12, 16, 99])
def test_formats_the_device_cannot_make_are_unknown(number):
    with pytest.raises(RuntimeError, match=f"unknown format type: {number}; the formats of this device are NCHW"):
        known(number)
