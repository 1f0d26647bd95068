"""`torch.autocast("npu")`: PyTorch's cast lists for CUDA, as Python kernels on the device's autocast key.

The lists and policies are those of torch/include/ATen/autocast_mode.h (torch 2.13), where the macros
AT_FORALL_* name them. Operators in no list fall through.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torch

from jumar.npu.core.overloads import overload_of, tensors_in
from jumar.operators import listed

Tensor = torch.Tensor

FLOAT32_RESULT = [
    "prod",
    "prod.dim_int",
    "softmax.int",
    "log_softmax.int",
    "cumprod",
    "cumsum",
    "linalg_vector_norm",
    "linalg_matrix_norm",
    "linalg_matrix_norm.str_ord",
    "sum",
    "sum.dim_IntList",
]
"""Get `dtype=float32` unless the call names a dtype."""

FLOAT32_APPENDED = {"norm.Scalar": "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype"}
"""Become the overload that takes a dtype as its last argument."""

_KEY: Any = torch._C._parse_dispatch_key("AutocastPrivateUse1")
_WITHOUT_AUTOCAST = torch._C.DispatchKeySet(_KEY)
_cache: dict[tuple[int, bool], tuple[weakref.ref[Tensor], Tensor]] = {}
"""Casts of parameters within the outermost autocast block, by identity and gradient mode."""


def _eligible(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.is_cpu and value.is_floating_point() and value.dtype != torch.float64


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """Return the argument with every eligible tensor in it as `dtype`."""
    if _eligible(value):
        return value if value.dtype == dtype else _cast_tensor(value, dtype)
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, dtype) for item in value)
    return value


def _cast_tensor(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast one tensor; a parameter cast to the lower precision is cast once per autocast block."""
    cacheable = (
        tensor.dtype == torch.float32
        and tensor.requires_grad
        and tensor.is_leaf
        and not tensor._is_view()
        and torch.is_autocast_cache_enabled()
        and dtype == torch.get_autocast_dtype("npu")
    )
    if not cacheable:
        return tensor.to(dtype)
    key = (id(tensor), torch.is_grad_enabled())
    found = _cache.get(key)
    if found is not None and found[0]() is tensor:
        return found[1]
    made = tensor.to(dtype)
    _cache[key] = (weakref.ref(tensor), made)
    return made


def _casting(operator: Any, choose: Callable[[tuple[Any, ...]], torch.dtype]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_WITHOUT_AUTOCAST):
            dtype = choose(args)
            cast = [_cast(value, dtype) for value in args]
            return operator(*cast, **{name: _cast(value, dtype) for name, value in kwargs.items()})

    return kernel


def _with_result_dtype(operator: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_WITHOUT_AUTOCAST):
            if _eligible(args[0]) and kwargs.get("dtype") is None and not _has_dtype(args):
                kwargs["dtype"] = torch.float32
            return operator(*args, **kwargs)

    return kernel


def _has_dtype(args: tuple[Any, ...]) -> bool:
    return any(isinstance(value, torch.dtype) for value in args)


def _appending(name: str) -> Callable[..., Any]:
    plain, with_dtype = overload_of(name), overload_of(FLOAT32_APPENDED[name])

    def kernel(self: Tensor, p: Any = 2, *args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_WITHOUT_AUTOCAST):
            if not _eligible(self):
                return plain(self, p, *args, **kwargs)
            if name == "norm.ScalarOpt_dim" and len(args) == 1:
                args = (*args, kwargs.pop("keepdim", False))
            return with_dtype(self, p, *args, dtype=torch.float32)

    return kernel


def _autocast_dtype(_: tuple[Any, ...]) -> torch.dtype:
    return torch.get_autocast_dtype("npu")


def _float32(_: tuple[Any, ...]) -> torch.dtype:
    return torch.float32


def _widest(args: tuple[Any, ...]) -> torch.dtype:
    """Return the type to promote to. Raises RuntimeError when float16 meets bfloat16."""
    lower = torch.get_autocast_dtype("npu")
    current = lower
    for tensor in tensors_in(args):
        if not _eligible(tensor):
            continue
        if torch.float32 in (current, tensor.dtype):
            current = torch.float32
        elif tensor.dtype != lower:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return current


def _banned(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
        "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
        "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
        "safe to autocast."
    )


def kernels() -> dict[str, Callable[..., Any]]:
    """Return the autocast kernel of every operator in a list, by name without `aten::`."""
    policies: tuple[tuple[Iterable[str], Callable[[str], Callable[..., Any]]], ...] = (
        (listed("autocast_lower_precision"), lambda name: _casting(overload_of(name), _autocast_dtype)),
        (listed("autocast_float32"), lambda name: _casting(overload_of(name), _float32)),
        (FLOAT32_RESULT, lambda name: _with_result_dtype(overload_of(name))),
        (FLOAT32_APPENDED, _appending),
        (listed("autocast_promote"), lambda name: _casting(overload_of(name), _widest)),
    )
    found = {name: make(name) for names, make in policies for name in names if _exists(name)}
    return {**found, "binary_cross_entropy": _banned}


def _exists(name: str) -> bool:
    return bool(torch._C._dispatch_has_kernel(f"aten::{name}"))


def register(aten: Any, everything: Any) -> None:
    """Register the kernels, and let every other operator fall through."""
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name, kernel in kernels().items():
        aten.impl(name, "AutocastPrivateUse1", kernel, False)
    clear = torch.clear_autocast_cache

    def clear_autocast_cache() -> None:
        """Forget the casts of the autocast block that ends."""
        _cache.clear()
        clear()

    torch.clear_autocast_cache = clear_autocast_cache
