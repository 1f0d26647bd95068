"""`torch.compile` with npu tensors: Dynamo and AOTAutograd work as they are, Inductor has no code for the device.

The vendor's package brings an Inductor backend of its own. Here a graph with npu tensors that Inductor would
get is run by AOTAutograd with eager kernels instead: the same graph breaks, guards and recompiles, forward and
backward graphs, and the eager operators' results.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch

MESSAGE = (
    "torch.compile: the emulated NPU has no code generator, so Inductor's part is left out and the graphs that "
    "AOTAutograd makes run operator by operator (as with backend='aot_eager'). Results are the eager ones; times say "
    "nothing about a compiled model."
)


def uses_npu(graph: Any, inputs: Iterable[Any]) -> bool:
    """Return whether a graph of Dynamo takes, holds or makes npu tensors."""
    held = [*inputs, *graph.parameters(), *graph.buffers()] if isinstance(graph, torch.nn.Module) else list(inputs)
    if any(isinstance(item, torch.Tensor) and item.device.type == "npu" for item in held):
        return True
    nodes = getattr(getattr(graph, "graph", None), "nodes", ())
    return any(_names_npu(value) for node in nodes for value in (*node.args, *node.kwargs.values()))


def _names_npu(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "npu"
    return isinstance(value, str) and value.partition(":")[0] == "npu"


def _falling_back(compile_graph: Callable[..., Any]) -> Callable[..., Any]:
    said: list[bool] = []

    def call(self: Any, model_: Any, inputs_: Any, **options: Any) -> Any:
        if not uses_npu(model_, inputs_):
            return compile_graph(self, model_, inputs_, **options)
        if not said:
            said.append(True)
            warnings.warn(MESSAGE, stacklevel=2)
        from torch._dynamo.backends.debugging import aot_eager

        return aot_eager(model_, inputs_)

    return call


def install() -> None:
    """Have `torch.compile` with Inductor, its default, take another way for graphs with npu tensors."""
    wrapper: Any = torch._TorchCompileInductorWrapper
    wrapper.__call__ = _falling_back(wrapper.__call__)
