"""Record the operators of a block and run them again into the same memory.

While a graph is captured its operators do run, because the shapes of their results are needed. At the end
everything is put back: memory that was there before gets its old contents, the random generator its old
state, and results that the capture made become NaN where their type has it. On an NPU nothing has run by
then, and a script that reads a result before the first replay reads garbage; here it reads NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _python_dispatch
from torch.utils._pytree import tree_leaves, tree_map

from jumar.npu.dispatch.arguments import alias
from jumar.npu.runtime.graphs.handlers import HANDLERS, NpuGraphOpHandler
from jumar.npu.runtime.sync import is_synchronizing
from jumar.operators import has

Tensor = torch.Tensor
_Mode: Any = _python_dispatch.TorchDispatchMode

_KEY: Any = torch._C._parse_dispatch_key("AutocastPrivateUse1")
_AUTOCAST = torch._C.DispatchKeySet(_KEY)

_WRITTEN_WITHOUT_A_WORD = frozenset({"running_mean", "running_var"})
"""Arguments of the batch norm operators that these write although their schema does not say so."""


@dataclass(slots=True)
class Call:
    """One recorded operator; the names are those that handlers know."""

    op_cache_entry: Any
    """The operator's overload."""
    args: list[Any]
    kwargs: dict[str, Any]
    results: list[Tensor | None]
    """Tensors that a replay fills again; None for a result that shares the memory of an argument."""


@dataclass(slots=True)
class Recording:
    """What one capture holds: it keeps every tensor it needs alive, as a graph's private pool does."""

    calls: list[Call] = field(default_factory=list)
    made: set[int] = field(default_factory=set)
    """Addresses of the storages that the capture allocated."""
    before: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """Memory that was there before and was written, with its old contents, in order of the writes."""
    kept: list[Tensor] = field(default_factory=list)
    updatable: list[tuple[type[NpuGraphOpHandler], Call]] = field(default_factory=list)
    """Operators that have a handler, in order."""
    generator_state: Tensor = field(default_factory=torch.default_generator.get_state)

    def put_back(self) -> None:
        """Undo what running the operators has changed."""
        for tensor, contents in reversed(self.before):
            tensor.copy_(contents)
        self.before.clear()
        torch.default_generator.set_state(self.generator_state)
        for tensor in self.kept:
            if tensor.is_floating_point() or tensor.is_complex():
                _memory(tensor).fill_(float("nan"))

    def replay(self) -> None:
        """Run the operators again, in order."""
        with torch._C._AutoDispatchBelowAutograd(), torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            for call in self.calls:
                fresh = _tensors(call.op_cache_entry(*call.args, **call.kwargs))
                for target, value in zip(call.results, fresh, strict=True):
                    if target is not None:
                        _memory(target).copy_(_memory(value))


class Recorder(_Mode):  # type: ignore[misc]
    """Sees every operator below autograd, in the capturing thread and in the backward it starts."""

    def __init__(self, recording: Recording, with_handlers: bool = False) -> None:
        super().__init__()
        self.recording, self.with_handlers = recording, with_handlers

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator and record it. Raises RuntimeError for one that waits for the device."""
        handler = HANDLERS.get(func.__name__) if self.with_handlers else None
        if handler is None:
            return self._run(func, args, kwargs or {})[0]
        func, args, kwargs = handler.prepare_capture(func, args, kwargs or {})
        result, call = self._run(func, args, kwargs)
        if call is not None:
            self.recording.updatable.append((handler, call))
        return handler.postprocess_result(result, kwargs)

    def _run(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, Call | None]:
        recording = self.recording
        for tensor in _written(func, args, kwargs):
            if _address(tensor) not in recording.made:
                recording.before.append((_memory(tensor), _memory(tensor).clone()))
        held_args, held_kwargs = tree_map(_held, args), tree_map(_held, kwargs)
        result = func(*args, **kwargs)
        name = func.name()
        if is_synchronizing(name, args, kwargs, result):
            raise RuntimeError(
                f"{name} makes the host wait for the device, which is not permitted while the stream is capturing. "
                "Move it out of the captured block."
            )
        return result, self._record(func, held_args, held_kwargs, result)

    def _record(self, func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> Call | None:
        shared = {_address(tensor) for tensor in _tensors((args, kwargs))}
        held = [None if _address(tensor) in shared else tensor.detach() for tensor in _tensors(result)]
        own = [tensor for tensor in held if tensor is not None]
        self.recording.made |= {_address(tensor) for tensor in own}
        self.recording.kept += own
        only_geometry = torch.Tag.inplace_view in func.tags or not (own or func._schema.is_mutable)
        # NOTE: an operator that only allocates computes nothing: other operators fill the memory, which is the graph's.
        if only_geometry or has(func._schema.name, "uninitialised"):
            return None
        call = Call(func, list(args), kwargs, held)
        self.recording.calls.append(call)
        return call


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _memory(tensor: Tensor) -> Tensor:
    """Return a CPU tensor over the memory of any tensor: writing it tells no listener of the device."""
    return tensor.detach() if tensor.is_cpu else alias(tensor.detach())


def _held(value: Any) -> Any:
    """Return an argument as the graph keeps it: the same memory, without its autograd history.

    A CPU tensor without dimensions is a number, whose value at the capture counts.
    """
    if not isinstance(value, Tensor):
        return value
    return value.detach().clone() if value.is_cpu and value.dim() == 0 else value.detach()


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    for position, argument in enumerate(func._schema.arguments):
        is_declared = argument.alias_info is not None and argument.alias_info.is_write
        if is_declared or argument.name in _WRITTEN_WITHOUT_A_WORD:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            yield from _tensors(value)
