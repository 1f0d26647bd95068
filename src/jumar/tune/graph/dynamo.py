"""What TorchDynamo hands over: which arguments of a captured module are weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx


def constant_arguments(module: fx.GraphModule, arguments: Sequence[Any]) -> set[int]:
    """Return which arguments are parameters or buffers of the user's modules; known while the module is compiled.

    A module's numbers that come as tensors are none: they are another tensor in each call.
    """
    found = set()
    for number, (node, value) in enumerate(zip(module.graph.find_nodes(op="placeholder"), arguments, strict=True)):
        given = node.meta.get("grapharg")
        if getattr(given, "pass_arg_as_tensor", False):
            continue
        source = getattr(given, "source", None)
        guard = getattr(source, "guard_source", None)
        if isinstance(value, torch.nn.Parameter) or (guard is not None and guard.is_unspecialized_nn_module()):
            found.add(number)
    return found
