"""`LOSES_WORKS`, `GLOO_AVERAGES`, `outlives`: what older versions of PyTorch do not do for process groups of Python."""

from __future__ import annotations

import weakref
from typing import Any

import torch

_VERSION = [int(part) for part in torch.__version__.split(".")[:2]]
LOSES_WORKS = _VERSION < [2, 7]
"""C++ keeps its own half of a work only, whose `wait` never returns once the half of Python is gone."""
GLOO_AVERAGES = _VERSION >= [2, 8]
"""Gloo takes `ReduceOp.AVG`."""
_LOCKS_AT_END = _VERSION < [2, 8]
"""C++ joins the threads of a backend with the interpreter's lock held, which such a thread may be waiting for."""

_ended: list[Any] = []


def outlives(backend: Any, group: Any) -> None:
    """Have a backend outlive the group it belongs to where the group's end could hang.

    Python then lets go of it when the next group is made, without the lock.
    """
    _ended.clear()
    if _LOCKS_AT_END:
        weakref.finalize(group, _ended.append, backend)
