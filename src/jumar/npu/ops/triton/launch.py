"""Launches: a kernel that Triton would compile for a chip is run by Triton's interpreter."""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NoReturn

from jumar.npu.ops.triton import IS_OPERATOR
from jumar.npu.ops.triton.arguments import on_host, refuse_host_tensors, scalars_of, tensors_in
from jumar.npu.ops.triton.bfloat16 import compute_in_float32
from jumar.npu.ops.triton.operator import launch_as_operator


def _needs_an_interpreter(kernel: str) -> NoReturn:
    raise NotImplementedError(
        f"the Triton kernel {kernel!r} needs Triton's interpreter, which this Triton lacks; install triton 3.2 or "
        "newer, or give the script's pure PyTorch path for this run."
    )


class Refusal:
    """What a launch raises where Triton has no interpreter. The stand-in for CUDA puts its own words here."""

    refuse: Callable[[str], NoReturn] = staticmethod(_needs_an_interpreter)


class _Depth(threading.local):
    value: int = 0


_depth = _Depth()
"""How many launches of this thread are under way: only inside one may a kernel call another."""


def compile_nothing(module: ModuleType) -> None:
    """Change `triton.runtime.jit`: kernels run through the interpreter, at their launch and as parts of another."""
    kernels: Any = module.JITFunction
    call = getattr(kernels, "__call__", None)  # noqa: B004 - the function is wanted, not whether there is one

    def run(self: Any, *args: Any, grid: Any = None, warmup: bool = False, **kwargs: Any) -> None:
        interpreted = _interpreted(self)
        if warmup:
            return
        refuse_host_tensors(args)
        for hook in getattr(self, "pre_run_hooks", ()):
            hook(*args, **kwargs)
        interpreted.run(*args, grid=grid, warmup=False, **kwargs)

    def call_inside(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _interpreted(self)(*args, **kwargs) if _depth.value or call is None else call(self, *args, **kwargs)

    setattr(run, IS_OPERATOR, True)
    kernels.run, kernels.__call__ = run, call_inside


def watch_interpreter(module: ModuleType) -> None:
    """Change `triton.runtime.interpreter`: what it runs over npu tensors is an operator of the device."""
    compute_in_float32(module)
    _take_numbers_out_of_arrays(module)
    kernels: Any = module.InterpretedFunction
    if not hasattr(kernels, "run"):
        _give_class_run(kernels)
    interpret = kernels.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        found = [tensor for tensor in tensors_in((args, kwargs)) if not tensor.is_cpu]
        if warmup or not found:
            interpret(self, *args, grid=grid, warmup=warmup, **kwargs)
            return
        host_args, host_kwargs = on_host(args), {name: on_host(value) for name, value in kwargs.items()}

        def launch() -> None:
            with _inside():
                interpret(self, *host_args, grid=grid, warmup=False, **host_kwargs)

        scalars = scalars_of(self.arg_names, args, kwargs)
        launch_as_operator(self.fn.__name__, found, scalars, launch)

    setattr(run, IS_OPERATOR, True)
    kernels.run = run


def _give_class_run(kernels: Any) -> None:
    """Give the interpreter of Triton 3.2 to 3.5 the method `run` that 3.6 has; there each kernel holds a function."""
    initialise, executor = kernels.__init__, kernels.__getitem__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        initialise(self, *args, **kwargs)
        vars(self).pop("run", None)

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        if not warmup:
            executor(self, grid)(*args, **kwargs)

    kernels.__init__, kernels.run = __init__, run
    kernels.__getitem__ = lambda self, grid: functools.partial(self.run, grid=grid, warmup=False)


def _take_numbers_out_of_arrays(module: Any) -> None:
    """Let a scalar of the kernel bound a loop: the interpreter calls `int` on an array, which NumPy 2.5 refuses."""
    patch = module._patch_lang_tensor

    def patched(tensor: Any, *scope: Any) -> None:
        patch(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    module._patch_lang_tensor = patched


def _interpreted(kernel: Any) -> Any:
    """Return the interpreter's form of a kernel, made once."""
    found = getattr(kernel, "_jumar_interpreted", None)
    if found is None:
        try:
            module = importlib.import_module("triton.runtime.interpreter")
        except ImportError:
            Refusal.refuse(getattr(kernel, "__name__", "of the script"))
        found = kernel._jumar_interpreted = module.InterpretedFunction(kernel.fn)
    return found


@contextlib.contextmanager
def _inside() -> Iterator[None]:
    """Tell Triton and the kernels called from here that an interpreter is at work."""
    runtime = getattr(getattr(importlib.import_module("triton"), "knobs", None), "runtime", None)
    before = getattr(runtime, "interpret", None)
    _depth.value += 1
    try:
        if runtime is not None and not before:
            runtime.interpret = True
        yield
    finally:
        if runtime is not None and not before:
            runtime.interpret = before
        _depth.value -= 1
