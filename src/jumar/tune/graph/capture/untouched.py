"""A model that is run to see what it returns, and is afterwards as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from jumar.tune.graph.capture.keeping import Kept, process_state_kept
from jumar.tune.graph.reading.nesting import register_dataclasses


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One call of a model in evaluation mode."""

    result: Any
    arguments: Sequence[Any]
    """The flat arguments as the model left them."""
    buffers: Mapping[str, torch.Tensor]
    """Its buffers as it left them, by name."""


def ran(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Run:
    """Call a model with copies of the arguments; what it keeps for itself is as before afterwards.

    It is called twice, the second time with its buffers as they were: a model that keeps something elsewhere returns
    something else then, and is seen to be no function.
    """
    given, words = pytree.tree_map(_copied, (tuple(args), dict(kwargs)))
    again, words_again = pytree.tree_map(_copied, (tuple(args), dict(kwargs)))
    with untouched(model), _without_fast_path(), torch.no_grad():
        with _unwritten(model):
            model(*again, **words_again)
        result = model(*given, **words)
        register_dataclasses(result)
        return Run(
            result=pytree.tree_map(_copied, result),  # a buffer that it returns is put back
            arguments=pytree.tree_leaves((given, words)),
            buffers={name: buffer.detach().clone() for name, buffer in model.named_buffers(remove_duplicate=False)},
        )


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Put every module into evaluation mode; afterwards all is as it was.

    "All" is what the model keeps (`jumar.tune.graph.capture.keeping.Kept`: attributes, hooks, buffers, containers,
    generators) and what the process keeps for PyTorch (random numbers, grad mode, default dtype). Only the values of
    parameters are not looked at: a copy of them would need the model's memory twice.
    """
    with process_state_kept():
        kept = Kept(model)
        try:
            if any(module.training for module in model.modules()):
                with suppress(NotImplementedError):  # of an exported program, which computes as it was exported
                    model.eval()
            yield
        finally:
            kept.put_back()


@contextmanager
def _without_fast_path() -> Iterator[None]:
    """Leave aside PyTorch's fast path for encoder layers.

    It skips padding, so that it returns other values there than the operators that every compiler sees.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def _unwritten(model: nn.Module) -> Iterator[None]:
    """Put parameters and buffers back afterwards: which tensors they are, and the buffers' values."""
    kept = Kept(model, is_deep=False)
    try:
        yield
    finally:
        kept.put_back()


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value
