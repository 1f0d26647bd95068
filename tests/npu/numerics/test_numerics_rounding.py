"""HF32 against a reference in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jumar.npu.numerics.rounding import to_hf32

BITS = st.integers(0, 2**32 - 1)
SMALLEST_NORMAL = 2.0**-126


def reference(values, mantissa_bits):
    """Round to `mantissa_bits` explicit bits, to nearest and ties away from zero, by arithmetic in float64."""
    x = np.asarray(values, dtype=np.float32).astype(np.float64)
    finite = np.where(np.isfinite(x), x, 0.0)
    _, exponent = np.frexp(np.where(np.abs(finite) < SMALLEST_NORMAL, SMALLEST_NORMAL, finite))
    unit = np.ldexp(1.0, exponent - 1 - mantissa_bits)
    rounded = np.copysign(np.floor(np.abs(finite) / unit + 0.5) * unit, x)
    with np.errstate(over="ignore"):
        return np.where(np.isfinite(x), rounded, x).astype(np.float32)


def from_bits(patterns):
    return np.array(patterns, dtype=np.uint32).view(np.float32)


def same(left, right):
    """Equal values, equal signs of zero, NaN where NaN."""
    return bool(np.array_equal(left, right, equal_nan=True)) and bool(
        np.array_equal(np.signbit(left[~np.isnan(left)]), np.signbit(right[~np.isnan(right)]))
    )


@given(st.lists(BITS, min_size=1, max_size=64), st.sampled_from([10, 11]))
def test_every_bit_pattern_is_rounded_as_the_reference_does(patterns, mantissa_bits):
    values = from_bits(patterns)
    assert same(to_hf32(torch.from_numpy(values), mantissa_bits).numpy(), reference(values, mantissa_bits))


@given(st.lists(BITS, min_size=1, max_size=64))
def test_rounding_twice_is_rounding_once(patterns):
    once = to_hf32(torch.from_numpy(from_bits(patterns)))
    assert same(to_hf32(once).numpy(), once.numpy())


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (0x3F800800, 0x3F801000),  # a tie goes away from zero
        (0xBF800800, 0xBF801000),
        (0x3F8007FF, 0x3F800000),
        (0x3F801800, 0x3F802000),
        (0x7F7FFFFF, 0x7F800000),  # the largest number becomes Inf
        (0x00000800, 0x00001000),  # subnormal numbers keep their unit
        (0x80000000, 0x80000000),
    ],
)
def test_ties_and_edges_have_these_bits(pattern, expected):
    rounded = to_hf32(torch.from_numpy(from_bits([pattern])))
    assert hex(int(rounded.numpy().view(np.uint32)[0])) == hex(expected)


@pytest.mark.parametrize("pattern", [0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000, 0x7F800001])
def test_nan_stays_nan_whatever_its_bits(pattern):
    assert to_hf32(torch.from_numpy(from_bits([pattern]))).isnan().all()


@pytest.mark.parametrize("role", ["", "left"])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x.transpose(0, 1),
        lambda x: x[:, :, ::2, 1:],
        lambda x: x[:1].expand(3, -1, -1, -1),
    ],
    ids=["contiguous", "channels_last", "transposed", "strided", "expanded"],
)
@pytest.mark.parametrize("size", [4, 400])
def test_layout_and_size_change_nothing(make, size, role):
    x = make(torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0)))
    rounded = to_hf32(x, 11, role)
    assert rounded.shape == x.shape
    assert same(rounded.numpy(), reference(x.numpy(), 11))


def test_a_source_is_never_written():
    x = torch.randn(600, 600)
    before = x.clone()
    to_hf32(x, 11, "left")
    assert torch.equal(x, before)


def test_a_large_tensor_of_a_role_lies_in_the_buffer_of_that_role():
    first = to_hf32(torch.randn(600, 600), 11, "left")
    second = to_hf32(torch.randn(600, 600), 11, "left")
    other = to_hf32(torch.randn(600, 600), 11, "right")
    assert first.data_ptr() == second.data_ptr() != other.data_ptr()
