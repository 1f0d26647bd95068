"""One graph that TorchDynamo hands over, and the ways to compile it with TorchInductor."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, cast

import torch
from torch import fx

from jumar.base.errors import JumarError
from jumar.capture.notes.lines import is_users

_FRAME = re.compile(r'File "(.+)", line (\d+), in (.+)')

Compiled = Callable[..., Any]
"""What a back end returns: a function of the module's arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """A graph with the arguments of its first call."""

    module: fx.GraphModule
    arguments: Sequence[Any]
    patches: Mapping[str, Any]
    """TorchInductor's settings that the caller asked for."""

    @property
    def is_inference(self) -> bool:
        """Whether no gradients can be asked for."""
        if not torch.is_grad_enabled():
            return True
        outputs = [node.meta.get("example_value") for node in self.module.graph.output_node().all_input_nodes]
        values = [*self.arguments, *outputs]
        return not any(isinstance(value, torch.Tensor) and value.requires_grad for value in values)

    @property
    def name(self) -> str:
        """Where the graph begins in the user's source: `forward (model.py:12)`."""
        for node in self.module.graph.nodes:
            for found in _FRAME.finditer(node.meta.get("stack_trace") or ""):
                if is_users(found[1]):
                    return f"{found[3]} ({PurePath(found[1]).name}:{found[2]})"
        return "a graph"

    @property
    def device(self) -> str:
        """Where the arguments are, `cpu` when there is no tensor."""
        return next((value.device.type for value in self.arguments if isinstance(value, torch.Tensor)), "cpu")

    def untuned(self) -> Compiled:
        """Compile as `torch.compile` does by default."""
        from torch._inductor.compile_fx import compile_fx

        return cast(Compiled, compile_fx(self.module, list(self.arguments), config_patches=dict(self.patches)))


def inductor_settings(mode: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return TorchInductor's settings for a mode and options, as `torch.compile` would."""
    if mode is None or mode == "default":
        return dict(options)
    from torch._inductor import list_mode_options

    return {**list_mode_options(mode, None), **options}


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Leave the compilation that is under way while this is entered: what runs here may compile itself."""
    from torch.utils._python_dispatch import _disable_current_modes

    with torch._guards.tracing(None), _disable_current_modes():
        yield


def reason_of(error: BaseException) -> str:
    """Return why something failed, in one line that ends with a full stop."""
    text = str(error).strip()
    first = (text.splitlines()[0] if text else type(error).__name__).rstrip(".")
    return f"{first}." if isinstance(error, JumarError) else f"{type(error).__name__}: {first}."
