"""`crc32c`: the checksum of Castagnoli (RFC 3720), many lanes at a time, because a loop takes minutes a gigabyte."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_POLYNOMIAL = 0x82F63B78
_LANES = 4096
_MASK = 0xA282EAD8


def _table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table


_TABLE = _table()
_PLAIN = [int(value) for value in _TABLE]


def crc32c(pieces: Iterable[bytes | memoryview], crc: int = 0) -> int:
    """Return the checksum of what had `crc`, followed by bytes in pieces."""
    for piece in pieces:
        crc = _extended(crc, piece)
    return crc


def unmasked(value: int) -> int:
    """Return the checksum that a masked one stands for: TensorFlow stores a rotation of it with a constant added."""
    turned = (value - _MASK) & 0xFFFFFFFF
    return ((turned >> 17) | (turned << 15)) & 0xFFFFFFFF


def _extended(crc: int, data: bytes | memoryview) -> int:
    """Return the checksum of what had `crc`, followed by `data`."""
    length = len(data) // _LANES
    if length < 16:
        return _serial(crc, data)
    end = length * _LANES
    # A lane is a run of `length` bytes; all lanes go forward together, a byte a step.
    lanes = np.ascontiguousarray(np.frombuffer(data, np.uint8, end).reshape(_LANES, length).T)
    states = np.zeros(_LANES, np.uint32)
    for row in lanes:
        states = _TABLE[(states ^ row) & 0xFF] ^ (states >> np.uint32(8))
    # The state after zeros is linear in the state before them, so a lane's state is carried over the next lane by a
    # matrix of bits.
    forward = _matrix(length)
    state = crc ^ 0xFFFFFFFF
    for lane in states.tolist():
        state = _times(forward, state) ^ lane
    return _serial(state ^ 0xFFFFFFFF, data[end:])


def _serial(crc: int, data: bytes | memoryview) -> int:
    state = crc ^ 0xFFFFFFFF
    for byte in data:
        state = _PLAIN[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


_MATRICES: dict[int, list[int]] = {}


def _matrix(length: int) -> list[int]:
    """Return what `length` zero bytes do to each of the 32 bits of a state."""
    if length not in _MATRICES:
        power = [_PLAIN[(1 << bit) & 0xFF] ^ ((1 << bit) >> 8) for bit in range(32)]
        made, left = [1 << bit for bit in range(32)], length
        while left:
            if left & 1:
                made = [_times(power, column) for column in made]
            power = [_times(power, column) for column in power]
            left >>= 1
        _MATRICES[length] = made
    return _MATRICES[length]


def _times(matrix: list[int], state: int) -> int:
    result, bit = 0, 0
    while state:
        if state & 1:
            result ^= matrix[bit]
        state >>= 1
        bit += 1
    return result
