"""`module.to("npu")` keeps the identity of parameters, as it does on CUDA.

Moving a parameter assigns `parameter.data`, which PyTorch allows only between the devices it knows to
be alike; for another one `Module._apply` puts a new Parameter in the old one's place, and an optimizer
made before would go on with the old. Here the two exchange their contents afterwards. A
parameter without a shape yet would lose its class, and stay without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parameter import UninitializedParameter


def install() -> None:
    """Wrap `torch.nn.Module._apply`."""
    apply: Any = torch.nn.Module._apply

    def _apply(self: torch.nn.Module, fn: Callable[..., Any], recurse: bool = True) -> torch.nn.Module:
        before = {name: parameter for name, parameter in self._parameters.items() if parameter is not None}
        result: torch.nn.Module = apply(self, fn, recurse)
        for name, parameter in before.items():
            moved = self._parameters.get(name)
            lazy = isinstance(parameter, UninitializedParameter)
            if moved is not None and moved is not parameter and (lazy or type(moved) is type(parameter)):
                torch._C._swap_tensor_impl(parameter, moved)
                self._parameters[name] = parameter
        return result

    torch.nn.Module._apply = _apply  # type: ignore[method-assign]
