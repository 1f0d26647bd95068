"""Objects in place of names of torch_npu that are not emulated: using one raises NotImplementedError.

A name the vendor does not have at all is not made here: asking for it stays an AttributeError. `error_line` is what
the vendor's own errors end in.
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import os
import textwrap
import time
from collections.abc import Callable
from typing import Any, NoReturn

from jumar.npu.core.nearest import nearest_by_hand
from jumar.npu.core.state import CURRENT
from jumar.soc.support.public_api import class_names, members, python_names

MARK = "__jumar_refused__"
"""Attribute of every refused function, class and method: the vendor's name."""

_MODULES = ("PTA", "OPS", "DIST", "GRAPH", "PROF")
_COMPACT = "TORCH_NPU_COMPACT_ERROR_OUTPUT"

WORKS: list[Callable[[str], bool]] = []
"""Tells whether a name of the vendor works here; set by `torch_npu_alias`, which can look."""


def error_line(module: str, code: int, meaning: str) -> str:
    """Return the line that torch_npu's errors end in: time, process, device, rank and code (`utils/_error_code.py`).

    `module` is one of `_MODULES`. Empty with TORCH_NPU_COMPACT_ERROR_OUTPUT=1, as the vendor's.
    """
    if os.environ.get(_COMPACT, "0") not in ("", "0"):
        return ""
    number = f"ERR{_MODULES.index(module):02d}{code:03d}"
    when = f"{time.strftime('%Y-%m-%d-%H:%M:%S')} (PID:{os.getpid()}, Device:{CURRENT.device}, RankID:-1)"
    return f"\n[ERROR] {when} {number} {module} {meaning}"


def is_refused(value: Any) -> bool:
    """Return whether this object stands for something that is not emulated, or does nothing but raise itself.

    The latter is a function annotated `NoReturn`, or one whose only statement raises NotImplementedError or calls a
    function annotated so; for a class its `__new__` and `__init__` count.
    """
    if MARK in getattr(value, "__dict__", {}):
        return True
    makers = (vars(value).get("__new__"), vars(value).get("__init__")) if isinstance(value, type) else (value,)
    functions = [getattr(maker, "__func__", maker) for maker in makers]
    return any(_never_returns(found) or _only_refuses(found) for found in functions)


def _never_returns(value: Any) -> bool:
    return getattr(value, "__annotations__", {}).get("return") in ("NoReturn", NoReturn)


def _only_refuses(value: Any) -> bool:
    """Return whether the body of a function is one statement that refuses."""
    if not inspect.isfunction(value) or not value.__module__.startswith("jumar."):
        return False
    tree = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    body = [node for node in getattr(tree, "body", ()) if not _is_text(node)] if tree else []
    if len(body) != 1:
        return False
    names = [node.id for node in ast.walk(body[0]) if isinstance(node, ast.Name)]
    if isinstance(body[0], ast.Raise):
        return "NotImplementedError" in names
    return isinstance(body[0], ast.Expr) and any(_never_returns(value.__globals__.get(name)) for name in names)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def refused(name: str) -> Any:
    """Return the class or function that stands for `name`, or None when the vendor's table has no such name."""
    return _refused(name) if name in python_names() else None


def refuse(name: str, nearest: str = "") -> NoReturn:
    """Raise NotImplementedError that names the function and the nearest thing that works."""
    close = nearest or _nearest(name)
    advice = f"the nearest thing that works is {close}" if close else "nothing here comes near it"
    raise NotImplementedError(f"{name} is not emulated; {advice}.")


@functools.cache
def _refused(name: str) -> Any:
    return _class(name) if name in class_names() else function(name)


def function(name: str) -> Callable[..., NoReturn]:
    """Return a function that refuses."""

    def call(*_args: Any, **_kwargs: Any) -> NoReturn:
        refuse(name)

    module, _, last = name.rpartition(".")
    call.__name__, call.__qualname__, call.__module__ = last, last, module
    call.__doc__ = f"Not emulated: calling it raises NotImplementedError that names what comes near {last}."
    setattr(call, MARK, name)
    return call


def _class(name: str) -> type:
    """Return a class, so that `isinstance` and subclassing work; making an instance refuses."""

    def new(_cls: type, *_args: Any, **_kwargs: Any) -> NoReturn:
        refuse(name)

    module, _, last = name.rpartition(".")
    contents: dict[str, Any] = {
        member: staticmethod(function(f"{name}.{member}")) for member in members().get(name, ())
    }
    contents |= {"__new__": new, "__module__": module, MARK: name}
    contents["__doc__"] = "Not emulated: making an instance raises NotImplementedError."
    return type(last, (), contents)


def complete(owner: str, cls: type) -> None:
    """Give a class of the emulator the vendor's methods that it lacks, as functions that refuse."""
    for member in members().get(owner, ()):
        if not hasattr(cls, member):
            setattr(cls, member, function(f"{owner}.{member}"))


def _nearest(name: str) -> str:
    by_hand = nearest_by_hand(name)
    if by_hand is not None:
        return by_hand
    works = WORKS[0] if WORKS else None
    close = difflib.get_close_matches(name, sorted(python_names() - {name}), n=8, cutoff=0.7)
    return next((found for found in close if works is not None and works(found)), "")
