"""The parts of TensorFlow's table files: checksums, packed blocks, keys of slices; and shards that cannot be joined."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.base.errors import InputError
from jumar.export import export_checkpoint
from jumar.export.formats.pytorch.reading import refused
from jumar.export.formats.tensorflow.crc32c import crc32c, unmasked
from jumar.export.formats.tensorflow.slices import Slice, key_of
from jumar.export.formats.tensorflow.table import _snappy


def by_bits(data: bytes) -> int:
    """Return CRC-32C by its definition, a bit at a time."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)],
)
def test_the_checksum_is_that_of_rfc_3720(data, expected) -> None:
    assert crc32c([data]) == expected


@given(st.integers(0, 255), st.integers(65_000, 70_000), st.integers(0, 70_000))
@settings(max_examples=8, deadline=None)
def test_the_checksum_in_lanes_is_that_of_the_definition(seed, size, cut) -> None:
    data = bytes((seed + at * at) % 251 for at in range(size))
    assert crc32c([data[:cut], data[cut:]]) == crc32c([data]) == by_bits(data)


def test_a_masked_checksum_is_turned_back() -> None:
    crc = 0xE3069283
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    assert unmasked(masked) == crc


@pytest.mark.parametrize(
    ("packed", "plain"),
    [
        (b"\x03\x08abc", b"abc"),
        (b"\x09\x08abc\x09\x03", b"abcabcabc"[:9][:3] + b"abcabc"),  # six bytes from three back: it copies its own
        (b"\x08\x04ab\x16\x02\x00", b"ab" + b"ababab"),
        (b"\x46\xf0\x3f" + bytes(64) + b"\x16\x01\x00", bytes(70)),
    ],
)
def test_packed_blocks_are_unpacked(packed, plain) -> None:
    assert _snappy(packed) == plain


@pytest.mark.parametrize("packed", [b"\x03\x08ab", b"\x09\x09\x03", b"\x05\x08abc", b"\xff\xff\xff\xff\x0f", b""])
def test_a_damaged_packed_block_is_an_error(packed) -> None:
    with pytest.raises(ValueError, match=r"packed|cut short|unpacks|too long"):
        _snappy(packed)


def test_keys_of_slices_sort_as_the_slices_do() -> None:
    begins = [0, 1, 63, 64, 200, 8191, 8192, 1 << 20, 1 << 40]
    keys = [key_of("table", Slice((begin,), (-1,))) for begin in begins]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(begins)


def test_a_shard_of_one_rank_names_the_way(tmp_path) -> None:
    sentence = refused(tmp_path / "rank0.pt", "torch.distributed._shard.sharded_tensor.api.ShardedTensor")
    assert "torch.distributed.checkpoint.save" in sentence
    from torch.distributed._shard.sharded_tensor import ShardedTensor

    class Shard:
        def __reduce__(self):
            return ShardedTensor, ()

    torch.save({"w": Shard(), "b": torch.ones(1)}, tmp_path / "rank0.pt")
    with pytest.raises(InputError, match=r"a shard of one rank \(ShardedTensor\)"):
        export_checkpoint(tmp_path / "rank0.pt", tmp_path / "out.pt")
