"""Hashes of other tools: what can be compared with what."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest
from recording_builder import tensor_row

from jumar.comparison.measure.distances import OTHER_HASHES, measure
from jumar.comparison.measure.loading import no_tensor
from jumar.recording import TensorRow


def hashed(array: np.ndarray, digest: str) -> TensorRow:
    """Return a row that has a hash and no figures."""
    row = tensor_row("output.0", array, 1)
    return replace(row, minimum=None, maximum=None, mean=None, l2=None, num_nan=None, num_inf=None, hash=digest)


def checksum(array: np.ndarray) -> str:
    return f"{zlib.crc32(array.tobytes()):08x}"


ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_hashes_of_two_kinds_tell_nothing() -> None:
    found = measure(hashed(ARRAY, checksum(ARRAY)), hashed(ARRAY, "0123456789abcdef"))
    assert (found.known, found.note) == (False, OTHER_HASHES)


@pytest.mark.parametrize("change", [0.0, 1.0])
def test_a_checksum_is_compared_with_that_of_a_whole_tensor(change) -> None:
    other = ARRAY.copy()
    other[2, 1] += change
    row = tensor_row("output.0", other, 1)
    sides = hashed(ARRAY, checksum(ARRAY)), row
    for one, two, load in (
        (*sides, (no_tensor, lambda _: other)),
        (*reversed(sides), (lambda _: other, no_tensor)),
    ):
        found = measure(one, two, load)
        assert (found.known, found.evidence, found.nonfinite_differs) == (True, "hashes", change != 0)


def test_a_checksum_of_bytes_that_are_not_at_hand_tells_nothing() -> None:
    row = replace(tensor_row("output.0", ARRAY, 1), dtype="bfloat16")  # read as float32
    found = measure(replace(hashed(ARRAY, "00000000"), dtype="bfloat16"), row, (no_tensor, lambda _: ARRAY))
    assert not found.known
