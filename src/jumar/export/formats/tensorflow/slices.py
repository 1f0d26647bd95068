"""Slices of a partitioned variable: `Slice`, and the key of its entry, written so that keys sort as the slices do.

The key (tensorflow/core/lib/strings/ordered_code.h, tensor_bundle/naming): the number 0, the name, the number of
dimensions, and for each dimension begin and length, -1 for all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from jumar.export.formats.tensorflow.wire import fields

_WHOLE = -1


@dataclass(frozen=True, slots=True)
class Slice:
    """A box in a tensor."""

    begins: tuple[int, ...]
    lengths: tuple[int, ...]
    """-1: all of the dimension."""

    def within(self, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the box as slices. Raises ValueError where it does not fit."""
        if len(self.begins) != len(shape):
            raise ValueError("a slice has another rank")
        boxes = []
        for begin, length, extent in zip(self.begins, self.lengths, shape, strict=True):
            end = extent if length == _WHOLE else begin + length
            if not 0 <= begin <= end <= extent:
                raise ValueError("a slice reaches beyond its variable")
            boxes.append(slice(begin, end))
        return tuple(boxes)


def slice_of(data: bytes) -> Slice:
    """Return a slice of `TensorSliceProto { repeated Extent { start = 1; length = 2; } extent = 1; }`."""
    begins, lengths = [], []
    for number, value in fields(data):
        if number == 1 and isinstance(value, bytes):
            told = dict(fields(value))
            begin, length = told.get(1, 0), told.get(2, _WHOLE)
            if not isinstance(begin, int) or not isinstance(length, int) or max(begin, length) >= 1 << 62:
                raise ValueError("a slice that is none")
            begins.append(begin)
            lengths.append(length)
    return Slice(tuple(begins), tuple(lengths))


def key_of(name: str, part: Slice) -> bytes:
    """Return the key of a slice's entry."""
    text = name.encode().replace(b"\xff", b"\xff\x00").replace(b"\x00", b"\x00\xff") + b"\x00\x01"
    key = _unsigned(0) + text + _unsigned(len(part.begins))
    for begin, length in zip(part.begins, part.lengths, strict=True):
        key += _signed(begin) + _signed(length)
    return key


def _unsigned(value: int) -> bytes:
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([len(data)]) + data


def _signed(value: int) -> bytes:
    """Return a number from -64 on: as many ones before it as it has bytes, then its bits."""
    if -64 <= value < 64:
        return bytes([0x80 ^ (value & 0xFF)])
    length = next(size for size in range(2, 11) if value < 1 << (7 * size - 1))
    data = bytearray(value.to_bytes(length, "big"))
    header = ((1 << length) - 1) << (8 * length - length)
    return bytes(one ^ mark for one, mark in zip(data, header.to_bytes(length, "big"), strict=True))
