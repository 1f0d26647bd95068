"""Which float32 master belongs to which 16-bit weight, and checkpoints that hold and restore the masters' values.

A checkpoint of a 16-bit model with masters is float32, so that it can be loaded at any level. Its values are the
masters': a training that goes on from it goes on exactly, not from weights that were rounded to 16 bits.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakTensorKeyDictionary

from jumar.amp.cast.levels import HALF_TYPES

Tensor = torch.Tensor

_MASTERS: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
_MODELS: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
_LOADED: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""Weight to the float32 value that was loaded into it before it had a master."""


@torch.no_grad()
def new_master(weight: Tensor) -> Tensor:
    """Return a float32 master of a 16-bit weight; of a weight that was loaded just now, the value before rounding."""
    loaded: Tensor | None = _LOADED.pop(weight, None)  # type: ignore[no-untyped-call]
    exact = loaded is not None and _is_master_of(loaded, weight)
    master = (loaded if exact and loaded is not None else weight.detach().clone().float()).requires_grad_()
    _MASTERS[weight] = weakref.ref(master)
    _MODELS[master] = weakref.ref(weight)
    return master


def weight_of(master: Tensor) -> Tensor | None:
    """Return the model's weight that `master` stands for; None for a tensor that is no master."""
    reference = _MODELS.get(master)  # type: ignore[no-untyped-call]
    found: Tensor | None = None if reference is None else reference()
    return found


def _is_master_of(value: Tensor, weight: Tensor) -> bool:
    return value.shape == weight.shape and torch.equal(value.to(weight.dtype), weight)


def keep_checkpoints_whole(model: nn.Module) -> None:
    """Let `state_dict` of the model and its parts hold float32, and `load_state_dict` restore masters."""
    for module in model.modules():
        module.register_state_dict_post_hook(_whole)  # type: ignore[no-untyped-call]
        module.register_load_state_dict_pre_hook(_restore)  # type: ignore[no-untyped-call]


def _whole(module: nn.Module, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    own: dict[str, Any] = {**module._parameters, **module._buffers}
    for name, tensor in own.items():
        value = state.get(prefix + name)
        if isinstance(value, Tensor) and value.dtype in HALF_TYPES:
            reference = _MASTERS.get(tensor)  # type: ignore[no-untyped-call]
            master = None if reference is None else reference()
            if master is not None and _is_master_of(master.detach(), value.detach()):
                state[prefix + name] = master.detach().clone()
            else:  # no master, or a script has changed the weight itself
                state[prefix + name] = value.to(torch.float32)


@torch.no_grad()
def _restore(module: nn.Module, state: dict[str, Any], prefix: str, *_rest: Any) -> None:
    for name, weight in module._parameters.items():
        value = state.get(prefix + name)
        if weight is None or weight.dtype not in HALF_TYPES or not isinstance(value, Tensor):
            continue
        if value.shape != weight.shape or not value.is_floating_point():
            continue  # load_state_dict says so
        reference = _MASTERS.get(weight)  # type: ignore[no-untyped-call]
        master = None if reference is None else reference()
        if master is not None:
            master.copy_(value)
        else:
            _LOADED[weight] = value.detach().to(weight.device, torch.float32, copy=True)
