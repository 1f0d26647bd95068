"""`unpickle`: runs the opcodes of a pickle over a table of names. Nothing is imported and nothing else is called.

Opcodes: `pickletools` of Python's library. A name of the pickle is looked up in the caller's table, and only a
`Builder` of that table can be called.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

MOST_STEPS = 20_000_000
_MOST_BYTES = 1 << 30
"""Of one text or number within a pickle."""


class ForbiddenNameError(Exception):
    """A pickle names something that is not in the table. The argument is the name."""


class DamagedPickleError(Exception):
    """The bytes are no pickle, or one that is cut short."""


@dataclass(frozen=True, slots=True)
class Builder:
    """What a pickle may call, under the name of something else."""

    name: str
    build: Callable[..., Any]


Names = Callable[[str], Any]
"""Returns what a dotted name stands for. Raises ForbiddenNameError."""


def unpickle(file: BinaryIO, names: Names, persistent: Callable[[Any], Any] | None = None) -> Any:
    """Return the value of the pickle that begins here, and leave the file behind its end.

    Raises ForbiddenNameError, DamagedPickleError, and ValueError or TypeError of a builder that got wrong arguments.
    """
    return _Machine(file, names, persistent).run()


_MARK = object()


class _Machine:
    def __init__(self, file: BinaryIO, names: Names, persistent: Callable[[Any], Any] | None) -> None:
        self.file, self.names, self.persistent = file, names, persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        for _ in range(MOST_STEPS):
            code = self.bytes(1)
            if code == b".":
                return self.pop()
            step = _STEPS.get(code)
            if step is None:
                raise DamagedPickleError(f"unknown opcode {code!r}")
            step(self)
        raise DamagedPickleError(f"more than {MOST_STEPS:,} opcodes")

    def bytes(self, count: int) -> bytes:
        if not 0 <= count <= _MOST_BYTES:
            raise DamagedPickleError(f"a value of {count:,} bytes")
        data = self.file.read(count)
        if len(data) != count:
            raise DamagedPickleError("it ends in the middle")
        return data

    def number(self, form: str) -> int:
        (value,) = struct.unpack(form, self.bytes(struct.calcsize(form)))
        return int(value)

    def line(self) -> str:
        line = self.file.readline(4096)
        if not line.endswith(b"\n"):
            raise DamagedPickleError("a name without an end")
        return _text(line[:-1])

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise DamagedPickleError("its stack is empty")
        return self.stack.pop()

    def to_mark(self) -> list[Any]:
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                taken = self.stack[at + 1 :]
                del self.stack[at:]
                return taken
        raise DamagedPickleError("a mark is missing")

    def top(self, kind: type) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise DamagedPickleError(f"a {kind.__name__} is missing")
        return self.stack[-1]

    def remember(self, index: int) -> None:
        if not self.stack:
            raise DamagedPickleError("its stack is empty")
        self.memo[index] = self.stack[-1]

    def recall(self, index: int) -> None:
        if index not in self.memo:
            raise DamagedPickleError(f"value {index} is not there")
        self.push(self.memo[index])

    def name(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise DamagedPickleError("a name is no text")
        self.push(self.names(f"{module}.{name}"))

    def call(self, function: Any, arguments: Any, keywords: Mapping[str, Any] | None = None) -> None:
        if not isinstance(function, Builder) or not isinstance(arguments, tuple):
            raise DamagedPickleError("it calls what is no function")
        self.push(function.build(*arguments, **(keywords or {})))

    def build(self) -> None:
        state, target = self.pop(), self.pop()
        take = getattr(target, "take_state", None)
        self.push(target if take is None else take(state))

    def set_items(self, pairs: list[Any]) -> None:
        target = self.top(dict)
        if len(pairs) % 2:
            raise DamagedPickleError("a value is missing")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            try:
                target[key] = value
            except TypeError as error:
                raise DamagedPickleError("a key that cannot be one") from error

    def extend(self, items: list[Any]) -> None:
        self.top(list).extend(items)

    def add(self, items: list[Any]) -> None:
        try:
            self.top(set).update(items)
        except TypeError as error:
            raise DamagedPickleError("a member that cannot be one") from error

    def persist(self, identity: Any) -> None:
        if self.persistent is None:
            raise DamagedPickleError("it names a value outside")
        self.push(self.persistent(identity))

    def tuple_of(self, count: int) -> None:
        items = [self.pop() for _ in range(count)]
        self.push(tuple(reversed(items)))

    def new_with_keywords(self) -> None:
        keywords, arguments, function = self.pop(), self.pop(), self.pop()
        if not isinstance(keywords, dict) or not all(isinstance(key, str) for key in keywords):
            raise DamagedPickleError("keywords are missing")
        self.call(function, arguments, keywords)

    def reduce(self) -> None:
        arguments, function = self.pop(), self.pop()
        self.call(function, arguments)

    def stack_name(self) -> None:
        name, module = self.pop(), self.pop()
        self.name(module, name)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise DamagedPickleError("a text that is none") from error


def _long(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _frozen(items: list[Any]) -> frozenset[Any]:
    try:
        return frozenset(items)
    except TypeError as error:
        raise DamagedPickleError("a member that cannot be one") from error


Step = Callable[[_Machine], Any]


def _dict(machine: _Machine) -> None:
    pairs = machine.to_mark()
    machine.push({})
    machine.set_items(pairs)


def _drop(machine: _Machine) -> None:
    if machine.stack and machine.stack[-1] is _MARK:
        machine.stack.pop()
    else:
        machine.pop()


_STEPS: dict[bytes, Step] = {
    b"\x80": lambda m: m.bytes(1),
    b"\x95": lambda m: m.bytes(8),
    b"(": lambda m: m.push(_MARK),
    b"0": _drop,
    b"1": lambda m: m.to_mark(),
    b"2": lambda m: m.push(m.top(object)),
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"J": lambda m: m.push(m.number("<i")),
    b"K": lambda m: m.push(m.number("<B")),
    b"M": lambda m: m.push(m.number("<H")),
    b"\x8a": lambda m: m.push(_long(m.bytes(m.number("<B")))),
    b"\x8b": lambda m: m.push(_long(m.bytes(m.number("<i")))),
    b"G": lambda m: m.push(struct.unpack(">d", m.bytes(8))[0]),
    b"X": lambda m: m.push(_text(m.bytes(m.number("<I")))),
    b"\x8c": lambda m: m.push(_text(m.bytes(m.number("<B")))),
    b"\x8d": lambda m: m.push(_text(m.bytes(m.number("<Q")))),
    b"B": lambda m: m.push(m.bytes(m.number("<I"))),
    b"C": lambda m: m.push(m.bytes(m.number("<B"))),
    b"\x8e": lambda m: m.push(m.bytes(m.number("<Q"))),
    b"\x96": lambda m: m.push(bytearray(m.bytes(m.number("<Q")))),
    b"U": lambda m: m.push(m.bytes(m.number("<B")).decode("latin-1")),
    b"T": lambda m: m.push(m.bytes(m.number("<i")).decode("latin-1")),
    b")": lambda m: m.push(()),
    b"]": lambda m: m.push([]),
    b"}": lambda m: m.push({}),
    b"\x8f": lambda m: m.push(set()),
    b"t": lambda m: m.push(tuple(m.to_mark())),
    b"l": lambda m: m.push(m.to_mark()),
    b"d": _dict,
    b"\x85": lambda m: m.tuple_of(1),
    b"\x86": lambda m: m.tuple_of(2),
    b"\x87": lambda m: m.tuple_of(3),
    b"\x91": lambda m: m.push(_frozen(m.to_mark())),
    b"a": lambda m: m.extend([m.pop()]),
    b"e": lambda m: m.extend(m.to_mark()),
    b"s": lambda m: m.set_items([*reversed([m.pop(), m.pop()])]),
    b"u": lambda m: m.set_items(m.to_mark()),
    b"\x90": lambda m: m.add(m.to_mark()),
    b"q": lambda m: m.remember(m.number("<B")),
    b"r": lambda m: m.remember(m.number("<I")),
    b"\x94": lambda m: m.remember(len(m.memo)),
    b"h": lambda m: m.recall(m.number("<B")),
    b"j": lambda m: m.recall(m.number("<I")),
    b"c": lambda m: m.name(m.line(), m.line()),
    b"\x93": _Machine.stack_name,
    b"R": _Machine.reduce,
    b"\x81": _Machine.reduce,
    b"\x92": _Machine.new_with_keywords,
    b"b": _Machine.build,
    b"Q": lambda m: m.persist(m.pop()),
}
