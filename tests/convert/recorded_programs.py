"""Runs a program with stand-ins for its modules, and notes which of its own expressions are evaluated, in which order.

`p(n)` in a program notes `n` and gives a stand-in that answers everything. A conversion may change what is
called; it never changes which of the program's own expressions are evaluated, how often, or in what order.
"""

from __future__ import annotations

import builtins
import contextlib
import warnings
from collections.abc import Coroutine, Iterator
from types import ModuleType
from typing import Any

MAX_NOTES = 4000


class TooLong(BaseException):
    """A run is cut off here; what it noted so far is compared."""


class StandIn(str):
    """Answers everything: attributes, calls, indexing, operators, loops of two, contexts; may be a name, too.

    It equals everything but 'cpu', so that every question about its device has the answer of an accelerator.
    """

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return True if name in ("is_cuda", "is_npu") else StandIn()

    def __setattr__(self, name: str, value: object) -> None:
        return None

    def __call__(self, *args: object, **kwargs: object) -> object:
        if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], StandIn):
            return args[0]  # as a decorator
        return StandIn()

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    def __getitem__(self, key: object) -> StandIn:
        return StandIn()

    def __setitem__(self, key: object, value: object) -> None:
        return None

    def __delitem__(self, key: object) -> None:
        return None

    def __iter__(self) -> Iterator[StandIn]:
        return iter([StandIn(), StandIn()])

    def __len__(self) -> int:
        return 2

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return not (isinstance(other, str) and other == "cpu")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return 1

    def __contains__(self, item: object) -> bool:
        return True

    def __str__(self) -> str:
        return "stand-in"

    def __format__(self, how: str) -> str:
        return "stand-in"

    def __index__(self) -> int:
        return 0

    def __int__(self) -> int:
        return 0

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    async def __aenter__(self) -> StandIn:
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    def __await__(self) -> Iterator[Any]:
        return iter(())

    def _operator(self, other: object) -> StandIn:
        return StandIn()

    __add__ = __radd__ = __mod__ = __rmod__ = __mul__ = __rmul__ = __sub__ = __truediv__ = __floordiv__ = _operator

    def _comparison(self, other: object) -> bool:
        return True

    __lt__ = __gt__ = __le__ = __ge__ = _comparison


class _Module(ModuleType):
    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()


def _import(name: str, namespace: Any = None, scope: Any = None, names: Any = (), level: int = 0) -> object:
    if name == "__future__":
        return __import__(name, namespace, scope, names, level)
    return _Module(name)


def _finish(coroutine: Coroutine[Any, Any, object]) -> object:
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a stand-in never waits")


def run(program: bytes) -> list[object]:
    """Return what a run of the program noted; the kind of exception that ended it comes last."""
    notes: list[object] = []

    def p(number: int) -> StandIn:
        notes.append(number)
        if len(notes) >= MAX_NOTES:
            raise TooLong
        return StandIn()

    inside = {**vars(builtins), "__import__": _import, "print": lambda *_, **__: None, "p": p, "finish": _finish}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = compile(program, "program.py", "exec")
        with contextlib.suppress(TooLong):
            try:
                exec(code, {"__builtins__": inside, "__name__": "program"})
            except Exception as error:  # noqa: BLE001  # whatever ends a generated program is part of what it does
                notes.append(type(error).__name__)
    return notes
