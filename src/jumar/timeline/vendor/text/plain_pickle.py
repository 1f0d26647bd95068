"""`load`: a pickle of plain containers, numbers and texts, read without running anything.

Python's own reader calls what a file names. This one knows the opcodes of plain values only, refuses all others, and
bounds what a file can make it keep. Opcodes: documentation of the standard library's `pickletools`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

MOST_VALUES = 40_000_000
"""Values of a file; each takes some 60 bytes of memory."""
_MOST_DIGITS = 64
"""Bytes of the largest whole number."""


class NotPlainError(ValueError):
    """The pickle holds more than plain values, or is damaged. The message is a sentence without its end."""


def load(data: bytes) -> Any:
    """Return the value of a pickle of protocol 0 to 5. Raises NotPlainError."""
    try:
        return _Machine(data).run()
    except NotPlainError:
        raise
    except (IndexError, KeyError, struct.error, TypeError, AttributeError, ValueError) as error:
        raise NotPlainError(f"it is cut short or damaged ({type(error).__name__})") from None


_REFUSED = {
    b"c": "GLOBAL", b"\x93": "STACK_GLOBAL", b"R": "REDUCE", b"\x81": "NEWOBJ", b"\x92": "NEWOBJ_EX", b"b": "BUILD",
    b"i": "INST", b"o": "OBJ", b"P": "PERSID", b"Q": "BINPERSID", b"\x82": "EXT1", b"\x83": "EXT2", b"\x84": "EXT4",
}  # fmt: skip
_CONSTANTS: dict[int, Any] = {ord("N"): None, 0x88: True, 0x89: False}
_EMPTY: dict[int, Callable[[], Any]] = {ord("}"): dict, ord("]"): list, ord(")"): tuple, 0x8F: set}
_NUMBERS = {
    ord("J"): struct.Struct("<i"), ord("K"): struct.Struct("<B"), ord("M"): struct.Struct("<H"),
    ord("G"): struct.Struct(">d"),
}  # fmt: skip
_SIZED = {
    ord("X"): ("<I", True), 0x8C: ("<B", True), 0x8D: ("<Q", True), ord("T"): ("<i", False), ord("U"): ("<B", False),
    ord("B"): ("<I", False), ord("C"): ("<B", False), 0x8E: ("<Q", False), 0x96: ("<Q", False),
}  # fmt: skip
"""Texts and bytes: the form of their length, and whether they are text."""
_SIZES = {code: (struct.Struct(form), is_text) for code, (form, is_text) in _SIZED.items()}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_GET = {ord("h"): struct.Struct("<B"), ord("j"): struct.Struct("<I")}
_PUT = {ord("q"): struct.Struct("<B"), ord("r"): struct.Struct("<I")}


class _Machine:
    """The stack machine of a pickle."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._outer: list[list[Any]] = []
        """Stacks below the open marks."""
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        data, length = self._data, len(self._data)
        if length > MOST_VALUES * 16:
            raise NotPlainError(f"it has {length} bytes, more than {MOST_VALUES * 16}")
        for _ in range(MOST_VALUES):
            code = data[self._at]
            self._at += 1
            if code == 0x2E:
                return self._stack.pop()
            if not (self._value(code) or self._container(code) or self._reference(code) or self._text_line(code)):
                name = _REFUSED.get(bytes([code]), f"opcode {code:#x}")
                raise NotPlainError(f"it asks for {name} at byte {self._at - 1}, which is more than plain values")
        raise NotPlainError(f"it has more than {MOST_VALUES} values")

    def _number(self, form: struct.Struct) -> Any:
        (value,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return value

    def _bytes(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise NotPlainError("it is cut short")
        self._at += size
        return self._data[self._at - size : self._at]

    def _value(self, code: int) -> bool:
        if code in _SIZES:
            form, is_text = _SIZES[code]
            content = self._bytes(self._number(form))
            self._stack.append(content.decode("utf-8", "replace") if is_text else content)
        elif code in _NUMBERS:
            self._stack.append(self._number(_NUMBERS[code]))
        elif code in _CONSTANTS:
            self._stack.append(_CONSTANTS[code])
        elif code in (0x8A, 0x8B):
            size = self._number(_GET[ord("h")] if code == 0x8A else _NUMBERS[ord("J")])
            if size > _MOST_DIGITS:
                raise NotPlainError(f"it has a number of {size} bytes")
            self._stack.append(int.from_bytes(self._bytes(size), "little", signed=True))
        else:
            return False
        return True

    def _container(self, code: int) -> bool:
        stack = self._stack
        if code == 0x28:
            self._outer.append(stack)
            self._stack = []
        elif code in _EMPTY:
            stack.append(_EMPTY[code]())
        elif code in _TUPLES:
            stack[-_TUPLES[code] :] = [tuple(stack[-_TUPLES[code] :])]
        elif code == 0x73:
            value, key = stack.pop(), stack.pop()
            stack[-1][key] = value
        elif code == 0x61:
            value = stack.pop()
            stack[-1].append(value)
        else:
            return self._marked(code)
        return True

    def _marked(self, code: int) -> bool:
        if code not in (0x75, 0x65, 0x74, 0x6C, 0x64, 0x90, 0x91, 0x31):
            return False
        items, self._stack = self._stack, self._outer.pop()
        stack = self._stack
        if code == 0x75:
            stack[-1].update(zip(items[::2], items[1::2], strict=True))
        elif code == 0x65:
            stack[-1].extend(items)
        elif code == 0x90:
            stack[-1].update(items)
        elif code != 0x31:
            pairs = zip(items[::2], items[1::2], strict=False)
            stack.append(
                tuple(items)
                if code == 0x74
                else items
                if code == 0x6C
                else dict(pairs)
                if code == 0x64
                else frozenset(items)
            )
        return True

    def _reference(self, code: int) -> bool:
        if code == 0x94:
            self._memo[len(self._memo)] = self._stack[-1]
        elif code in _GET:
            self._stack.append(self._memo[self._number(_GET[code])])
        elif code in _PUT:
            self._memo[self._number(_PUT[code])] = self._stack[-1]
        elif code in (0x80, 0x95):
            self._at += 1 if code == 0x80 else 8
        elif code == 0x30:
            self._stack.pop()
        elif code == 0x32:
            self._stack.append(self._stack[-1])
        else:
            return False
        return True

    def _text_line(self, code: int) -> bool:
        """Read the values that protocol 0 writes as lines of text."""
        if code not in b"ILFSVgp":
            return False
        end = self._data.index(b"\n", self._at)
        line, self._at = self._data[self._at : end], end + 1
        if code in b"gp":
            if code == ord("g"):
                self._stack.append(self._memo[int(line)])
            else:
                self._memo[int(line)] = self._stack[-1]
        elif code in b"IL":
            digits = line.rstrip(b"L")
            if len(digits) > _MOST_DIGITS:
                raise NotPlainError(f"it has a number of {len(digits)} digits")
            self._stack.append({b"00": False, b"01": True}.get(line) if line in (b"00", b"01") else int(digits))
        elif code == ord("F"):
            self._stack.append(float(line))
        elif code == ord("V"):
            self._stack.append(line.decode("raw_unicode_escape"))
        else:
            self._stack.append(line.decode("utf-8", "replace").strip("'\""))
        return True
