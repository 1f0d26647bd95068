"""Deeply nested code: it is refused before LibCST sees it, or parsed in a thread with a large stack.

LibCST's native parser overflows an ordinary stack at about 1,500 nested brackets or 5,000 joined operands
(LibCST 1.8, 8 MiB), which ends the process without a word, and takes time that grows with the square
of the depth. What a person writes, and most of what programs write, stays far below; what does not is
told by a look at its brackets and operators, and then by Python's own parser.
"""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from jumar.convert.model.text import parse_python
from jumar.convert.syntax.chains import LONG, chained, logical_lines

MAX_DEPTH = 800
"""Levels of nesting beyond which a file is refused. Python's own parser takes 200 brackets."""

_STACK_BYTES = 64 << 20
_OPERATOR = re.compile(r"\b(?:and|or|not|lambda|await|else)\b|[-+*/%&|^~.@(\[]")
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


def is_too_deep(text: str) -> bool:
    """Tell whether a source is nested beyond `MAX_DEPTH`."""
    if not any(_may_be_deep(line) for line in logical_lines(text) if len(line) > MAX_DEPTH):
        return False
    try:
        tree = parse_python(text)
    except (RecursionError, MemoryError):
        return True
    except (SyntaxError, ValueError) as error:
        return "too many nested" in str(error)
    return any(depth > MAX_DEPTH for depth in _depths(tree))


def _may_be_deep(part: str) -> bool:
    return sum(1 for _ in _OPERATOR.finditer(part)) > MAX_DEPTH


def _depths(tree: ast.Module) -> Iterator[int]:
    """Yield the depth of every node. The operands of a chain, which becomes a balanced tree, count as one level."""
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield depth
        operands = chained(node) if isinstance(node, (ast.BinOp, ast.BoolOp)) else ()
        if operands:
            depth += min(len(operands), LONG)
        waiting.extend((child, depth + 1) for child in operands or ast.iter_child_nodes(node))
