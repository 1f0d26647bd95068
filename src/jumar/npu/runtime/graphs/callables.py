"""`torch.npu.make_graphed_callables`: functions and modules whose forward and backward are replays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import arg_tree_leaves, tree_flatten, tree_leaves, tree_unflatten

from jumar.npu.runtime.current_stream import stream
from jumar.npu.runtime.graphs.graph import NPUGraph, Pool, graph, graph_pool_handle
from jumar.npu.runtime.streams import Stream

__all__ = ["make_graphed_callables"]

Tensor = torch.Tensor


@dataclass(slots=True)
class _Graphed:
    """One callable: the memory its graphs read and write, and the graphs."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    inputs: tuple[Tensor, ...]
    """The sample arguments, flat, then the module's parameters."""
    num_args: int
    forward: NPUGraph
    backward: NPUGraph
    outputs: tuple[Tensor, ...] = ()
    structure: Any = None
    output_gradients: tuple[Tensor | None, ...] = ()
    input_gradients: tuple[Tensor | None, ...] = ()

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return self.inputs[self.num_args :]


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Pool | None = None,
) -> Any:
    """Return graphed versions of a function or module, or of a tuple of them, for arguments like `sample_args`.

    A graphed version copies its arguments into the memory of the sample ones and replays; its backward is a
    replay too. A module is changed in place: in the other of its modes (training, evaluation) it runs as before.
    Raises RuntimeError for what cannot be captured: hooks on a module, buffers that need gradients, arguments
    that are no tensors, autocast with a cache.
    """
    if torch.is_autocast_enabled("npu") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`."
        )
    if not isinstance(callables, tuple):
        made = make_graphed_callables((callables,), (sample_args,), num_warmup_iters, allow_unused_input, pool)
        return made[0]
    graphed = [_prepared(function, args) for function, args in zip(callables, sample_args, strict=True)]
    token = graph_pool_handle() if pool is None else pool
    with stream(Stream()):
        for item in graphed:
            for _ in range(num_warmup_iters):
                _warm_up(item, allow_unused_input)
    for item in graphed:
        _capture_forward(item, token)
    for item in reversed(graphed):
        _capture_backward(item, token, allow_unused_input)
    return tuple(_replaced(item) for item in graphed)


def _prepared(function: Any, args: tuple[Any, ...]) -> _Graphed:
    flat = tuple(arg_tree_leaves(*args))
    if not all(isinstance(value, Tensor) for value in flat):
        raise RuntimeError("sample_args for each callable must contain only Tensors. Other types are not allowed.")
    parameters: tuple[Tensor, ...] = ()
    if isinstance(function, torch.nn.Module):
        if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
            raise RuntimeError(
                "Modules must not have hooks registered at the time they are passed. Registering hooks on modules "
                "after passing them through make_graphed_callables is allowed."
            )
        if any(buffer.requires_grad for buffer in function.buffers()):
            raise RuntimeError(
                "In any module passed to make_graphed_callables, only parameters may be trainable. All buffers must "
                "have `requires_grad=False`."
            )
        parameters = tuple(function.parameters())
    return _Graphed(function, args, (*flat, *parameters), len(flat), NPUGraph(), NPUGraph())


def _gradients(item: _Graphed, outputs: Any, gradients: Any, allow_unused: bool) -> tuple[Tensor | None, ...]:
    wanted = [tensor for tensor in item.inputs if tensor.requires_grad]
    return torch.autograd.grad(outputs, wanted, gradients, allow_unused=allow_unused)


def _warm_up(item: _Graphed, allow_unused: bool) -> None:
    outputs = [tensor for tensor in tree_leaves(item.function(*item.args)) if tensor.requires_grad]
    if outputs:
        _gradients(item, outputs, [torch.empty_like(tensor) for tensor in outputs], allow_unused)


def _capture_forward(item: _Graphed, pool: Pool) -> None:
    with graph(item.forward, pool=pool):
        outputs = item.function(*item.args)
    flat, item.structure = tree_flatten(outputs)
    item.outputs = tuple(flat)


def _capture_backward(item: _Graphed, pool: Pool, allow_unused: bool) -> None:
    item.output_gradients = tuple(torch.zeros_like(o) if o.requires_grad else None for o in item.outputs)
    outputs = [tensor for tensor in item.outputs if tensor.requires_grad]
    found: tuple[Tensor | None, ...] = ()
    if outputs:
        given = [gradient for gradient in item.output_gradients if gradient is not None]
        with graph(item.backward, pool=pool):
            found = _gradients(item, outputs, given, allow_unused)
    remaining = iter(found)
    item.input_gradients = tuple(next(remaining, None) if tensor.requires_grad else None for tensor in item.inputs)


def _function_of(item: _Graphed) -> Any:
    class Replay(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
            for target, given in zip(item.inputs[: item.num_args], inputs, strict=False):
                if target.data_ptr() != given.data_ptr():
                    target.copy_(given)
            item.forward.replay()
            return tuple(output.detach() for output in item.outputs)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
        def backward(_ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
            for target, given in zip(item.output_gradients, gradients, strict=True):
                if target is not None and target.data_ptr() != given.data_ptr():
                    target.copy_(given)
            item.backward.replay()
            return tuple(None if gradient is None else gradient.detach() for gradient in item.input_gradients)

    return Replay


def _replaced(item: _Graphed) -> Any:
    replay = _function_of(item)

    def graphed(*args: Any) -> Any:
        outputs = replay.apply(*arg_tree_leaves(*args), *item.parameters)
        return tree_unflatten(outputs, item.structure)

    module = item.function
    if not isinstance(module, torch.nn.Module):
        return graphed
    captured_mode, plain = module.training, module.forward

    def forward(*args: Any) -> Any:
        return graphed(*args) if module.training == captured_mode else plain(*args)

    module.forward = forward
    return module
