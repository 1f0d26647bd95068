"""Notes how a program clips its gradients: `ClipWatch`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from jumar.capture.notes.patches import Patches

_FUNCTIONS = ("clip_grad_norm_", "clip_grad_value_")
MOST = 8
"""Calls of a step that are noted."""


class ClipWatch:
    """Wraps the functions of `torch.nn.utils`. `on_norm` is given the number of the call and the norm it found."""

    def __init__(self, on_norm: Callable[[int, torch.Tensor], None]) -> None:
        self._on_norm = on_norm
        self._patches = Patches()
        self._limits: dict[str, list[Any]] = {}

    def start(self) -> None:
        """Begin to watch; a script that imported the functions before is not seen."""
        for name in _FUNCTIONS:
            original = getattr(torch.nn.utils, name)
            wrapped = self._wrapped(name, original)
            for module in (torch.nn.utils, torch.nn.utils.clip_grad):
                self._patches.replace(module, name, wrapped)

    def stop(self) -> None:
        """Take the wrappers away."""
        self._patches.restore()

    def end_step(self) -> dict[str, dict[str, list[Any]]]:
        """Return the limits of the step by function, and forget them."""
        limits, self._limits = self._limits, {}
        return {name: {"limit": values} for name, values in limits.items()}

    def _wrapped(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def clip(parameters: Any, limit: Any = None, *args: Any, **kwargs: Any) -> Any:
            given = () if limit is None else (limit, *args)
            found = original(parameters, *given, **kwargs)
            if not torch.compiler.is_compiling():
                self._note(name, kwargs.get("max_norm", kwargs.get("clip_value")) if limit is None else limit, found)
            return found

        return clip

    def _note(self, name: str, limit: Any, found: Any) -> None:
        limits = self._limits.setdefault(name, [])
        if len(limits) < MOST:
            is_number = isinstance(limit, int | float)
            limits.append(float(limit) if is_number else type(limit).__name__)
            if isinstance(found, torch.Tensor):
                self._on_norm(len(limits) - 1, found)
