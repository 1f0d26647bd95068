"""Cast the weights of a model, its inputs and outputs, and the arguments of functions."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_map

from jumar.amp.cast import weights
from jumar.amp.cast.levels import Level


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
        weights.keep_checkpoints_whole(model)
    if level.patch_torch_functions:
        model.register_load_state_dict_post_hook(_forget_casts)  # type: ignore[no-untyped-call]


def _forget_casts(_module: nn.Module, _keys: Any) -> None:
    torch.clear_autocast_cache()


def _wrap_forward(model: nn.Module, inputs: torch.dtype | None, outputs: torch.dtype) -> None:
    """Cast around `model.forward`. A deep copy of the model calls its own forward, because methods are bound anew."""
    forward = model.forward

    def casting(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if inputs is not None:
            args, kwargs = cast(args, inputs), cast(kwargs, inputs)
        return cast(self.__dict__["_forward_without_casts"](*args, **kwargs), outputs)

    function = getattr(forward, "__func__", None)
    if function is not None:
        functools.update_wrapper(casting, function)
    model.__dict__["_forward_without_casts"] = forward
    model.forward = types.MethodType(casting, model)


class _Casts:
    """The casts of functions that are in force in this process."""

    def __init__(self) -> None:
        self.device_types: tuple[str, ...] = ()
        self.half_type = torch.float16


CASTS = _Casts()


def cast_functions(device_types: Iterable[str], half_type: torch.dtype) -> None:
    """Cast around PyTorch's functions on some devices from now on, in this thread, by autocast's lists."""
    stop_casting_functions()
    CASTS.device_types, CASTS.half_type = tuple(sorted(set(device_types))), half_type
    for device_type in CASTS.device_types:
        torch.set_autocast_dtype(device_type, half_type)
        torch.set_autocast_enabled(device_type, True)
    torch.autocast_increment_nesting()  # an autocast block within must not drop the weights cast already


def stop_casting_functions() -> None:
    """Undo `cast_functions`."""
    if not CASTS.device_types:
        return
    for device_type in CASTS.device_types:
        torch.set_autocast_enabled(device_type, False)
    CASTS.device_types = ()
    torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()


@contextmanager
def disable_casts() -> Iterator[None]:
    """Cast nothing around PyTorch's functions within the block."""
    with ExitStack() as stack:
        for device_type in CASTS.device_types:
            stack.enter_context(torch.autocast(device_type, enabled=False))
        yield


def _with_dtype(function: Callable[..., Any], choose: Callable[[Any], torch.dtype]) -> Callable[..., Any]:
    @functools.wraps(function)
    def casting(*args: Any, **kwargs: Any) -> Any:
        if not any(torch.is_autocast_enabled(device_type) for device_type in CASTS.device_types):
            return function(*args, **kwargs)
        dtype = choose((args, kwargs))
        with disable_casts():
            return function(*cast(args, dtype), **cast(kwargs, dtype))

    return casting


def half_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that always gets the 16-bit type under O1."""
    return _with_dtype(function, lambda _values: CASTS.half_type)


def float_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that always gets float32 under O1."""
    return _with_dtype(function, lambda _values: torch.float32)


def promote_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose arguments all get the widest of their dtypes under O1."""

    def widest(values: Any) -> torch.dtype:
        found: list[torch.dtype] = []
        tree_map(lambda v: found.append(v.dtype) if isinstance(v, torch.Tensor) else None, values)
        return torch.float32 if torch.float32 in found else CASTS.half_type

    return _with_dtype(function, widest)
