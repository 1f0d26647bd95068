"""Which module is being called on each thread, by global forward hooks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from jumar.capture.notes.attribution import Origin
from jumar.capture.watch.naming import ModuleNames

_WITH_KWARGS: dict[int, bool] = getattr(nn.modules.module, "_global_forward_hooks_with_kwargs", {})


class Frame:
    """One module call under way. `call` is the observer's note of it, None when it keeps none."""

    __slots__ = ("call", "module", "origin", "path", "type_name")

    def __init__(self, module: nn.Module, path: str, type_name: str, origin: Origin | None = None) -> None:
        self.module = module
        self.path = path
        self.type_name = type_name
        self.origin = origin or Origin(path, type_name)
        self.call: Any = None


class ModuleListener(Protocol):
    """What `ModuleWatch` tells of module calls; wrappers such as DDP are not told."""

    def on_root(self, module: nn.Module) -> None:
        """An outermost module is about to be called."""

    def on_enter(self, frame: Frame, args: tuple[Any, ...]) -> None:
        """A module is about to run its forward."""

    def on_leave(self, frame: Frame, kwargs: dict[str, Any], output: Any, parent: Frame | None) -> None:
        """A module's forward has returned `output`, or raised when `output` is None."""


class ModuleWatch(threading.local):
    """The stack of module calls of the calling thread."""

    def __init__(self) -> None:
        self.stack: list[Frame] = []
        self.busy = _is_of_collectives()
        """True while the observer itself works on this thread: what it does is no part of the run. Always true on a
        thread of Gloo's, which adds up and copies for a collective under way, at any moment of the calling thread."""


def _is_of_collectives() -> bool:
    """Return whether the calling thread is Gloo's own, where the system tells names of threads."""
    try:
        name = Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text("utf-8")
    except OSError:
        return False
    return name.startswith("pt_gloo")


class ModuleHooks:
    """Installs the hooks and keeps `watch.stack` right, also when a forward raises."""

    def __init__(self, names: ModuleNames, listener: ModuleListener, watch: ModuleWatch) -> None:
        self._names = names
        self._listener = listener
        self._handles: list[Any] = []
        self._origins: dict[tuple[str, str], Origin] = {}
        self.after_root: Callable[[tuple[Any, ...], dict[str, Any]], None] | None = None
        """Is told the arguments of each call of an outermost module that has ended."""
        self.watch = watch

    def start(self) -> None:
        """Begin to watch every module of the process."""
        self._handles = [
            register_module_forward_pre_hook(self.before),
            register_module_forward_hook(self._after, with_kwargs=True, always_call=True),
        ]

    def stop(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()
            _WITH_KWARGS.pop(handle.id, None)  # PyTorch leaves this mark behind, and then takes a slower way for ever
        self._handles = []

    def before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Note that `module` is about to be called; the forward pre-hook."""
        if torch.compiler.is_compiling():
            return
        stack = self.watch.stack
        if not stack:
            self._listener.on_root(module)
        parent = stack[-1].path if stack else ""
        path = self._names.path(module, outermost=not stack, parent=parent)
        origin = self._origin(parent if path is None else path, type(module).__name__)
        frame = Frame(module, origin.module_path, origin.module_type, origin)
        stack.append(frame)
        if path is not None:
            self._listener.on_enter(frame, args)

    def _origin(self, path: str, type_name: str) -> Origin:
        origin = self._origins.get((path, type_name))
        if origin is None:
            origin = self._origins[path, type_name] = Origin(path, type_name)
        return origin

    def _after(self, module: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
        """`rest` is (kwargs, output), or (output,) when the forward raised."""
        if torch.compiler.is_compiling():
            return
        stack = self.watch.stack
        if not stack or (stack[-1].module is not module and not any(frame.module is module for frame in stack)):
            return  # the observer was started inside this call
        frame = stack.pop()
        while frame.module is not module:
            frame = stack.pop()
        kwargs, output = rest if len(rest) == 2 else ({}, None)
        if not stack and self.after_root is not None:
            self.after_root(args, kwargs)
        if frame.call is not None:
            self._listener.on_leave(frame, kwargs, output, stack[-1] if stack else None)
