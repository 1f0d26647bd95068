"""Launch a kernel as one operator, `triton::NAME`, so that observers and listeners see it with its tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jumar.npu.dispatch import detour

NAMESPACE = "triton"

_libraries: list[Any] = []
"""Kept alive: PyTorch drops the kernels of a library that is collected."""
_operators: dict[str, Any] = {}
_lock = threading.Lock()


class _UnderWay(threading.local):
    launch: Callable[[], None] | None = None


_under_way = _UnderWay()
"""The launch of this thread that its operator's kernel takes up: a schema cannot carry a Python function."""


def launch_as_operator(name: str, tensors: Sequence[torch.Tensor], scalars: str, launch: Callable[[], None]) -> None:
    """Call `launch` as the kernel of the operator `triton::NAME`, which may write every one of `tensors`."""
    operator = _operator(name)
    _under_way.launch = launch
    try:
        with torch.no_grad():  # a kernel writes memory: autograd knows of it only what the caller's Function says
            operator(list(tensors), scalars)
    finally:
        _under_way.launch = None


def _operator(name: str) -> Any:
    with _lock:
        if name not in _operators:
            make: Any = torch.library.Library
            library = make(NAMESPACE, "FRAGMENT")
            library.m.define(f"{name}(Tensor(a!)[] tensors, str scalars) -> ()", "", ())
            library.m.impl(name, "PrivateUse1", detour.observed(f"{NAMESPACE}::{name}", _run), False)
            _libraries.append(library)
            _operators[name] = getattr(getattr(torch.ops, NAMESPACE), name).default
        return _operators[name]


def _run(_tensors: Sequence[torch.Tensor], _scalars: str) -> None:
    launch, _under_way.launch = _under_way.launch, None
    if launch is None:
        raise NotImplementedError(
            "a Triton kernel runs where its script launches it, and this call came from elsewhere: run the script."
        )
    launch()
