"""What PyTorch itself says about its operators: read from the installed build, for `build_support_tables.py`.

A backend that registers no kernel for an operator still runs it when the operator is a composite:
its kernel calls other operators, and those are what the device needs. This module lists which
operators are composite and *watches* what they call, by running PyTorch's own operator samples
(`torch.testing` op_db) under a dispatch mode that opens every composite kernel.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import inspect
import io
import logging
import random
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
import torchgen.gen
from torch._C import DispatchKey
from torch.utils._python_dispatch import TorchDispatchMode

log = logging.getLogger("support-tables")

MAX_SAMPLES = 6
"""Samples of op_db that are run for each function: the first ones cover its usual overloads."""

COMPOSITE_KEYS = ("CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
"""In the order in which the dispatcher prefers them for a backend without a kernel of its own."""

PACKAGES = (
    "torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.nn.utils.rnn torch.nn.utils.prune "
    "torch.nn.utils.parametrize torch.nn.utils.parametrizations torch.nn.parallel torch.nn.attention torch.optim "
    "torch.optim.lr_scheduler torch.optim.swa_utils torch.autograd torch.autograd.profiler torch.autograd.functional "
    "torch.amp torch.cuda torch.cuda.amp torch.cuda.nvtx torch.cuda.comm torch.cuda.nccl torch.cuda.memory "
    "torch.cuda.random torch.cuda.profiler torch.cuda.graphs torch.utils torch.utils.data torch.utils.data.distributed "
    "torch.utils.data.sampler torch.utils.data.dataloader torch.utils.data.dataset torch.utils.checkpoint "
    "torch.utils.cpp_extension torch.utils.dlpack torch.distributed torch.distributed.fsdp torch.distributed.optim "
    "torch.distributed.checkpoint torch.distributed.tensor torch.distributed.device_mesh torch.distributions "
    "torch.linalg torch.fft torch.special torch.sparse torch.nested torch.func torch.profiler torch.random torch.jit "
    "torch.fx torch.hub torch.multiprocessing torch.backends.cudnn torch.backends.cuda torch.backends.mps "
    "torch.compiler torch.library torch.export torch.overrides torch.ao.quantization torch.onnx torch.testing"
)
"""Where public names are looked for, separated by spaces."""


class Watch(TorchDispatchMode):
    """Notes which operators are called, and what each composite operator calls in turn.

    `is_closed(name)` says that an operator has a kernel of its own on the device: it is run whole.
    """

    def __init__(self, is_closed: Callable[[str], bool], children: dict[str, set[str]]) -> None:
        super().__init__()
        self.is_closed = is_closed
        self.children = children
        self.roots: set[str] = set()
        self._parents: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Collection[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Note the call; run a composite kernel with the mode on, anything else as it is."""
        name = func.name().removeprefix("aten::")
        (self.children[self._parents[-1]] if self._parents else self.roots).add(name)
        # A kernel that calls its own operator again (`sum` of a list of none, say) is not opened twice.
        key = None if self.is_closed(name) or name in self._parents else composite_key(name)
        if key is None:
            return func(*args, **(kwargs or {}))
        self._parents.append(name)
        try:
            with self:
                return func._op_dk(getattr(DispatchKey, key), *args, **(kwargs or {}))
        finally:
            self._parents.pop()


def composite_key(name: str) -> str | None:
    """Return the dispatch key of the composite kernel a new backend gets for `name` (of aten if bare), or None."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    qualified = name if "::" in name else f"aten::{name}"
    return next((key for key in COMPOSITE_KEYS if has_kernel(qualified, key)), None)


def operators() -> dict[str, str]:
    """Return every aten overload with its kind: implicit, explicit, view, leaf, or no-cpu.

    `view` is a composite that returns an alias of its input and writes nothing; `leaf` needs a
    kernel of the device's own; `no-cpu` does too, and has none on the CPU either.
    """
    names = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    return {name.removeprefix("aten::"): _kind(name) for name in sorted(names)}


def _kind(qualified: str) -> str:
    key = composite_key(qualified.removeprefix("aten::"))
    if key is None:
        has_cpu = torch._C._dispatch_has_computed_kernel_for_dispatch_key(qualified, "CPU")
        return "leaf" if has_cpu else "no-cpu"
    if key == "CompositeImplicitAutograd":
        return "implicit"
    returns = torch._C._get_schema(*_split(qualified)).returns
    is_view = bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
    return "view" if is_view else "explicit"


def _split(qualified: str) -> tuple[str, str]:
    name, _, overload = qualified.partition(".")
    return name, overload


def generated_children() -> dict[str, set[str]]:
    """Return what generated kernels call: a structured operator its out form, a generated out form its base."""
    folder = Path(inspect.getfile(torchgen.gen)).parent / "packaged" / "ATen" / "native"
    parsed = torchgen.gen.parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
    children: dict[str, set[str]] = defaultdict(set)
    for function in parsed.native_functions:
        name = str(function.func.name)
        if function.structured_delegate is not None:
            children[name].add(str(function.structured_delegate))
        for generated in function.autogen:
            children[str(generated)].add(name)
    return children


def watched(is_closed: Callable[[str], bool]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Run op_db and return (operator → the operators it calls, public function → the operators it calls)."""
    from torch.testing._internal.common_methods_invocations import op_db

    children: dict[str, set[str]] = defaultdict(set)
    functions: dict[str, set[str]] = defaultdict(set)
    for info in op_db:
        if info.name.startswith("jiterator"):  # needs CUDA to run at all
            continue
        for sample in _samples(info):
            watch = Watch(is_closed, children)
            _run(watch, lambda info=info, sample=sample: info.op(sample.input, *sample.args, **sample.kwargs))
            for name in _public_names(info.name):
                functions[name] |= watch.roots
    return children, functions


def watched_modules(is_closed: Callable[[str], bool], children: dict[str, set[str]]) -> dict[str, set[str]]:
    """Run the forward of every sample of module_db; return module class → the operators it calls."""
    from torch.testing._internal.common_modules import module_db

    found: dict[str, set[str]] = defaultdict(set)
    for info in module_db:
        samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=True)
        for sample in samples[:MAX_SAMPLES]:
            module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
            watch = Watch(is_closed, children)
            if sample.forward_input is not None:
                forward = sample.forward_input
                _run(watch, lambda m=module, forward=forward: m(*forward.args, **forward.kwargs))
            found[f"torch.nn.{info.module_cls.__name__}"] |= watch.roots
    return found


def _run(watch: Watch, call: Callable[[], object]) -> None:
    """Run one sample; one that cannot run under the mode only leaves fewer operators seen."""
    try:
        with watch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError) as error:
        log.info("not watched to the end: %s", str(error).splitlines()[0][:100])


def _samples(info: Any) -> Iterator[Any]:
    dtype = torch.float32 if torch.float32 in info.dtypes else next(iter(info.dtypes), None)
    if dtype is None:
        return
    try:
        for number, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=False)):
            if number >= MAX_SAMPLES:
                return
            yield sample
    except RuntimeError as error:
        log.info("no samples for %s: %s", info.name, str(error).splitlines()[0][:100])


def _public_names(name: str) -> list[str]:
    """Return the public paths of an op_db entry: `torch.linalg.inv`, `torch.Tensor.masked_fill`."""
    return [path for path in (f"torch.{name}", f"torch.Tensor.{name}") if _lookup(path) is not None]


def _lookup(path: str) -> object | None:
    value: object = torch
    for part in path.split(".")[1:]:
        try:
            value = getattr(value, part, None)
        except (AssertionError, RuntimeError):  # an attribute that asks a CUDA runtime which is not there
            return None
        if value is None:
            return None
    return value


def public_names() -> dict[str, object]:
    """Return every public name of the packages and of torch.Tensor with its object."""
    found: dict[str, object] = {}
    for package in PACKAGES.split():
        module = importlib.import_module(package)
        for name in dir(module):
            value = getattr(module, name, None)
            if not name.startswith("_") and _is_torchs_own(value):
                found[f"{package}.{name}"] = value
    found |= {f"torch.Tensor.{name}": getattr(torch.Tensor, name) for name in dir(torch.Tensor) if name[0] != "_"}
    return found


def _is_torchs_own(value: object) -> bool:
    """True for what PyTorch defines: not the standard library that its modules happen to import."""
    home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None) or type(value).__module__
    is_plain = isinstance(value, (bool, int, float, str))
    return home.startswith("torch") or is_plain or (home == "builtins" and inspect.isbuiltin(value))


def aliases(names: dict[str, object], targets: Collection[str]) -> dict[str, str]:
    """Return public name → the name in `targets` that is the very same function or class."""
    by_object: dict[int, str] = {}
    for target in sorted(targets):
        value = _lookup(target) if target.startswith("torch.") else None
        if inspect.isclass(value) or inspect.isroutine(value):
            by_object.setdefault(id(value), target)
    found = {name: by_object[id(value)] for name, value in names.items() if id(value) in by_object}
    return {name: target for name, target in sorted(found.items()) if name not in targets}


def packets(names: dict[str, object], known: Collection[str]) -> dict[str, str]:
    """Return public builtin → the aten operator it is bound to: `torch.relu` → `relu`."""
    bases = {name.partition(".")[0] for name in known}
    bound = {}
    for name, value in sorted(names.items()):
        base = str(getattr(value, "__name__", "")) if inspect.isroutine(value) else ""
        if not inspect.isfunction(value) and base in bases:
            bound[name] = base
    return bound


def tensor_methods() -> list[str]:
    """Return the methods that, among the objects of an ordinary script, only a tensor has."""
    plain: tuple[type, ...] = (str, bytes, list, dict, set, int, float, slice, io.TextIOWrapper, Path)
    library: tuple[type, ...] = (
        re.Pattern, re.Match, argparse.Namespace, argparse.ArgumentParser, logging.Logger, random.Random,
        collections.Counter, collections.deque, numpy.ndarray, numpy.random.RandomState,
    )  # fmt: skip
    torchs: tuple[type, ...] = (
        torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.StepLR, torch.utils.data.DataLoader,
        torch.optim.lr_scheduler.ReduceLROnPlateau, torch.Generator, torch.Stream, torch.Event, torch.amp.GradScaler,
        torch.distributions.Distribution, torch.autograd.function.FunctionCtx, torch.device, torch.dtype,
        torch.fx.Graph,
    )  # fmt: skip
    taken = set().union(*(dir(other) for other in plain + library + torchs))
    names = (name for name in dir(torch.Tensor) if not name.startswith("_"))
    return sorted(name for name in names if callable(getattr(torch.Tensor, name)) and name not in taken)


def plain_values(names: dict[str, object]) -> list[str]:
    """Return the public names of values no device has a part in: dtypes, layouts, constants, modules."""
    kinds = (bool, int, float, str, torch.dtype, torch.layout, torch.memory_format)
    return sorted(name for name, value in names.items() if isinstance(value, kinds) or inspect.ismodule(value))
