"""The single-operator compile cache: which operators would be compiled for this shape, and which are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from jumar.device.emulator.events import OperatorEvent
from jumar.device.emulator.state import STATE

Key = tuple[Any, ...]


def is_online() -> bool:
    """Return whether operators are compiled for each new shape (`jit_compile`).

    Chips that call aclnn kernels by default do not compile; the first generation does.
    """
    chosen = STATE.options.get("jitCompile")
    if chosen is None:
        return not STATE.profile.is_aclnn_default
    return bool(chosen == "enable")


def key_of(event: OperatorEvent, formats: tuple[str, ...]) -> Key:
    """Return what decides whether a compiled operator can be used again: type, tensors, formats, attributes."""
    arguments = tuple(_part(value) for value in event.args)
    named: Mapping[str, Any] = event.kwargs
    keywords = tuple(sorted((name, _part(value)) for name, value in named.items()))
    return (event.operator, arguments, keywords, formats)


def _part(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), str(value.dtype))
    if isinstance(value, (list, tuple)):
        return tuple(_part(item) for item in value)
    return str(value) if isinstance(value, (torch.dtype, torch.device, torch.Generator)) else repr(value)


class CompileCache:
    """The keys that have been compiled."""

    def __init__(self) -> None:
        self._known: set[Key] = set()

    def needs_compile(self, key: Key) -> bool:
        """Return whether `key` is new, and remember it."""
        if key in self._known:
            return False
        self._known.add(key)
        return True

    def clear(self) -> None:
        """Forget every compiled operator."""
        self._known.clear()
