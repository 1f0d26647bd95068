"""Puts the back end under a script that does not name it.

Scripts that call `torch.compile` get Jumar's back end in the place of TorchInductor (other back ends stay as the
script chose them). In scripts that do not, the outermost call of a module with parameters is compiled, in training and
evaluation.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from jumar.tune.backend.entry import jumar

PLUGIN = "jumar.tune.backend.install:install"
"""As `JUMAR_RUN_PLUGIN` names it (`jumar.capture.process.plugin`)."""

_REPLACED = ("inductor", "jumar")
_WRAPPERS = (nn.parallel.DistributedDataParallel,)
"""Modules that TorchDynamo runs as they are; what they call is the outermost module."""
_state: dict[str, Callable[[], None]] = {}
_forwards: dict[type[nn.Module], Callable[..., Any]] = {}
"""Compiled forwards of classes."""


def install() -> None:
    """Put it in place, once a process; `uninstall` undoes it."""
    if _state:
        return
    compile_before, call_before = torch.compile, nn.Module.__call__

    def restore() -> None:
        torch.compile = compile_before
        nn.Module.__call__ = call_before  # type: ignore[method-assign]

    _state["restore"] = restore
    torch.compile = _with_our_backend(compile_before)
    nn.Module.__call__ = _compiling_outermost(call_before)  # type: ignore[method-assign]


def uninstall() -> None:
    """Put PyTorch's own back."""
    if _state:
        _state.pop("restore")()
        _forwards.clear()


def _with_our_backend(original: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def compile(model: Any = None, **settings: Any) -> Any:
        if settings.get("backend", "inductor") in _REPLACED:
            settings["backend"] = jumar
        return original(model, **settings)

    return compile


def _compiling_outermost(original: Callable[..., Any]) -> Any:
    """Return `Module.__call__` that compiles a module's forward when it is called from outside of any module.

    Hooks stay outside of what is compiled, where the observer's are needed. While the call runs, PyTorch's own
    `__call__` is in place: TorchDynamo, which looks into it, must not find this one.
    """
    entered = threading.local()
    aside = _Aside(original)

    @functools.wraps(original)
    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or getattr(entered, "yes", False) or isinstance(self, _WRAPPERS):
            return original(self, *args, **kwargs)
        entered.yes = True
        try:
            with aside, _compiled_forward(self) if _is_to_be_compiled(self) else contextlib.nullcontext():
                return original(self, *args, **kwargs)
        finally:
            entered.yes = False

    return __call__


class _Aside:
    """Has PyTorch's own `Module.__call__` in place while any thread is inside."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self._original = original
        self._ours: Callable[..., Any] = original
        self._num_inside = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if not self._num_inside:
                self._ours = nn.Module.__call__
                nn.Module.__call__ = self._original  # type: ignore[method-assign]
            self._num_inside += 1

    def __exit__(self, *_exception: object) -> None:
        with self._lock:
            self._num_inside -= 1
            if not self._num_inside and _state:  # nothing is put back behind `uninstall`
                nn.Module.__call__ = self._ours  # type: ignore[method-assign]


def _is_to_be_compiled(module: nn.Module) -> bool:
    """Tell whether a module is worth compiling: it has parameters, and neither PyTorch nor the script did so before."""
    if module._compiled_call_impl is not None or isinstance(module, torch._dynamo.eval_frame.OptimizedModule):
        return False
    if isinstance(module, torch.jit.ScriptModule) or torch._C._get_tracing_state() is not None:
        return False
    return "forward" not in module.__dict__ and next(module.parameters(), None) is not None


@contextlib.contextmanager
def _compiled_forward(module: nn.Module) -> Iterator[None]:
    """Let the module's own forward be the compiled one of its class while this is entered."""
    module.__dict__["forward"] = types.MethodType(_compiled(type(module)), module)
    try:
        yield
    finally:
        del module.__dict__["forward"]


def _compiled(kind: type[nn.Module]) -> Callable[..., Any]:
    if kind not in _forwards:
        _forwards[kind] = torch.compile(kind.forward, backend=jumar)
    return _forwards[kind]
