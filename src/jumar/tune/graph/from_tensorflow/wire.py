"""Reads protobuf messages field by field, without TensorFlow: `nodes_of` gives the operators of a GraphDef.

The encoding: https://protobuf.dev/programming-guides/encoding. The numbers of the fields: graph.proto, node_def.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIZES = {FIXED64: 8, FIXED32: 4}
_NODE, _NAME, _OPERATOR = 1, 1, 2
_OF_GRAPH = {1: BYTES, 2: BYTES, 3: VARINT, 4: BYTES, 5: BYTES}
"""Fields of a GraphDef: node, library, version, versions, debug_info."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message."""

    number: int
    kind: int
    content: memoryview
    """Empty unless `kind` is BYTES."""


def fields_of(message: memoryview) -> Iterator[Field]:
    """Yield the fields of a message. Raises ValueError where it is cut short or no message."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        size, first = 0, place
        if kind == BYTES:
            size, first = _varint(message, place)
        elif kind == VARINT:
            _, first = _varint(message, place)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise ValueError(f"byte {place} begins no field")
        place = first + size
        if not number or place > len(message):
            raise ValueError(f"a field needs {place} bytes of {len(message)}" if number else "a field has no number")
        yield Field(number, kind, message[first:place] if kind == BYTES else message[:0])


def kinds_of(message: memoryview) -> dict[int, int]:
    """Return, by number, the kind of each field of a message. Raises ValueError as `fields_of` does."""
    return {one.number: one.kind for one in fields_of(message)}


def nodes_of(graph: memoryview) -> list[tuple[str, str]]:
    """Return the name and the operator of each node of a GraphDef. Raises ValueError where it is none."""
    found = []
    for one in fields_of(graph):
        if _OF_GRAPH.get(one.number) != one.kind:
            raise ValueError(f"a graph has no field {one.number} of this kind")
        if one.number == _NODE:
            texts = {part.number: part.content for part in fields_of(one.content) if part.number in {_NAME, _OPERATOR}}
            if len(texts) != 2:
                raise ValueError("a node has no name or no operator")
            found.append((str(texts[_NAME], "utf-8"), str(texts[_OPERATOR], "utf-8")))
    if not found:
        raise ValueError("it has no nodes")
    return found


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Return a number of variable length and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise ValueError(f"it ends within a number, at byte {place}")
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError(f"a number before byte {place} is too long")
