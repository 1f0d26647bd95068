"""Cast the weights of a model, its inputs and outputs, and the arguments of functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_map

from jumar.npu.api.apex.levels import Level

_DEVICE = "npu"


def cast(values: Any, dtype: torch.dtype) -> Any:
    """Return nested containers with their floating-point tensors cast."""
    return tree_map(lambda v: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v, values)


def convert_network(model: nn.Module, dtype: torch.dtype, *, keep_batchnorm: bool = True) -> nn.Module:
    """Cast floating-point weights and buffers in place, those of affine batch normalizations only if told to."""
    for module in model.modules():
        if keep_batchnorm and isinstance(module, _BatchNorm) and module.affine:
            continue
        for parameter in module.parameters(recurse=False):
            if parameter.is_floating_point():
                parameter.data = parameter.data.to(dtype)
                if parameter.grad is not None:
                    parameter.grad.data = parameter.grad.data.to(dtype)
        for buffer in module.buffers(recurse=False):
            if buffer.is_floating_point():
                buffer.data = buffer.data.to(dtype)
    return model


def convert_model(model: nn.Module, level: Level, outputs: torch.dtype | None) -> None:
    """Give a model the level's weights, and casts at its entry and exit."""
    dtype = level.cast_model_type
    if dtype is not None:
        convert_network(model, dtype, keep_batchnorm=level.keep_batchnorm_fp32 is not False)
        _wrap_forward(model, dtype, outputs or torch.float32)
    elif outputs is not None:
        _wrap_forward(model, None, outputs)
    if level.half_model and level.master_weights:
        model.register_state_dict_post_hook(_whole_weights)  # type: ignore[no-untyped-call]


def _wrap_forward(model: nn.Module, inputs: torch.dtype | None, outputs: torch.dtype) -> None:
    forward = model.forward

    @functools.wraps(forward)
    def casting(*args: Any, **kwargs: Any) -> Any:
        if inputs is not None:
            args, kwargs = cast(args, inputs), cast(kwargs, inputs)
        return cast(forward(*args, **kwargs), outputs)

    model.forward = casting


def _whole_weights(_module: nn.Module, state: dict[str, Any], _prefix: str, _metadata: Any) -> None:
    """Checkpoints hold float32, so that they can be loaded at any level."""
    for name, value in state.items():
        if isinstance(value, torch.Tensor) and value.dtype is torch.float16:
            state[name] = value.to(torch.float32)


def cast_functions() -> None:
    """Cast around PyTorch's functions from now on, in this thread."""
    torch.set_autocast_dtype(_DEVICE, torch.float16)
    torch.set_autocast_enabled(_DEVICE, True)
    torch.autocast_increment_nesting()  # an autocast block within must not drop the weights cast already


def stop_casting_functions() -> None:
    """Undo `cast_functions`."""
    torch.set_autocast_enabled(_DEVICE, False)
    torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()


@contextmanager
def disable_casts() -> Iterator[None]:
    """Cast nothing around PyTorch's functions within the block."""
    with torch.autocast(_DEVICE, enabled=False):
        yield


def _with_dtype(function: Callable[..., Any], choose: Callable[[Any], torch.dtype]) -> Callable[..., Any]:
    @functools.wraps(function)
    def casting(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_autocast_enabled(_DEVICE):
            return function(*args, **kwargs)
        dtype = choose((args, kwargs))
        with disable_casts():
            return function(*cast(args, dtype), **cast(kwargs, dtype))

    return casting


def half_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that always gets float16 under O1."""
    return _with_dtype(function, lambda _values: torch.float16)


def float_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that always gets float32 under O1."""
    return _with_dtype(function, lambda _values: torch.float32)


def promote_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose arguments all get the widest of their dtypes under O1."""

    def widest(values: Any) -> torch.dtype:
        found: list[torch.dtype] = []
        tree_map(lambda v: found.append(v.dtype) if isinstance(v, torch.Tensor) else None, values)
        return torch.float32 if torch.float32 in found else torch.float16

    return _with_dtype(function, widest)
