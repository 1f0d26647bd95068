"""Parsing in a thread with a large stack: LibCST's native parser overflows an ordinary one on deeply nested code.

An overflow there ends the process without a word. On 8 MiB about 1,500 nested brackets or 5,000 joined
operands are too many (LibCST 1.8); a stack of 512 MiB, of which only what is touched takes memory,
moves that beyond what `is_hopeless` refuses. Starting the thread costs less than a tenth of a millisecond.
"""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Callable
from typing import TypeVar

_STACK_BYTES = 512 << 20
_MAX_BRACKETS = 50_000
_MAX_OPERANDS = 100_000
_lock = threading.Lock()  # threading.stack_size is one setting for the whole process

ResultT = TypeVar("ResultT")


def with_large_stack(function: Callable[[str], ResultT], text: str) -> ResultT:
    """Return `function(text)`, called on a large stack; what it raises is raised here."""
    results: list[ResultT] = []
    errors: list[BaseException] = []

    def target() -> None:
        try:
            results.append(function(text))
        except BaseException as error:  # noqa: BLE001  # it is raised again in the caller's thread
            errors.append(error)

    thread = _started(target)
    if thread is None:
        return function(text)
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _started(target: Callable[[], None]) -> threading.Thread | None:
    """Return a running thread with a large stack, None where the system grants none (a limit on address space)."""
    thread = threading.Thread(target=target, name="jumar-parse", daemon=True)
    with _lock:
        before = threading.stack_size(_STACK_BYTES)
        try:
            thread.start()
        except RuntimeError:
            return None
        finally:
            threading.stack_size(before)
    return thread


def is_hopeless(text: str) -> bool:
    """Tell whether even a large stack may be too small: decided by Python's own parser, which counts its depth."""
    brackets = text.count("(") + text.count("[") + text.count("{")
    operands = text.count(" and ") + text.count(" or ") + text.count("not ") + text.count("-") + text.count("+")
    if brackets <= _MAX_BRACKETS and operands + text.count(".") <= _MAX_OPERANDS:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
        except (RecursionError, MemoryError):
            return True
        except (SyntaxError, ValueError) as error:
            return "too many nested" in str(error)
    return any(isinstance(node, ast.BoolOp) and len(node.values) > _MAX_BRACKETS for node in ast.walk(tree))
