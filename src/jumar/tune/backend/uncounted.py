"""Writes to weights that PyTorch does not count in their versions: steps of fused optimizers.

`SGD`, `Adam`, `AdamW` and `Adagrad` with `fused=True`, and optimizers that write by pointers of their own, leave no
trace in `weight._version`, by which a tuned model sees that its weights have changed. After each optimizer's step the
versions of the weights that a plan holds are raised, as every other in-place operation does.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.weak import WeakIdKeyDictionary

_held = WeakIdKeyDictionary()
_lock = Lock()
_installed: list[Any] = []


def count_steps(weights: Iterable[torch.Tensor]) -> None:
    """Let each optimizer's step from now on show in the versions of these weights."""
    with _lock:
        for weight in weights:
            if not weight.is_inference():  # it has no version, and no optimizer writes to it
                _held[weight] = None
        if not _installed:
            _installed.append(register_optimizer_step_post_hook(_after_step))


def _after_step(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
    if torch.compiler.is_compiling():  # a compiled step counts its writes
        return
    given = (weight for group in optimizer.param_groups for weight in group["params"])
    written = [weight for weight in given if weight.grad is not None and weight in _held]
    if written:
        torch.autograd.graph.increment_version(written)
