"""Reversible wrappers around functions of PyTorch that have no hook of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Python 3.7, where the collector of TensorFlow programs runs, cannot subscript these
    Around = Callable[..., AbstractContextManager[None]]


class Patches:
    """Wrappers made through this object; `restore` undoes them all."""

    def __init__(self) -> None:
        self._originals: list[tuple[Any, str, Any]] = []

    def around(self, owner: Any, name: str, context: Around) -> None:
        """Enter `context(*args, **kwargs)` around each call of `owner.name` with these arguments."""
        original = owner.__dict__[name]

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with context(*args, **kwargs):
                return original(*args, **kwargs)

        self.replace(owner, name, wrapper)

    def replace(self, owner: Any, name: str, function: Any) -> None:
        """Put `function` in place of `owner.name` until `restore`."""
        self._originals.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, function)

    def restore(self) -> None:
        """Put the originals back, last first."""
        while self._originals:
            setattr(*self._originals.pop())
