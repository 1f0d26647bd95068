"""Methods about formats that the vendor adds to tensors, storages and modules; the formats of weights.

A module that moves to the npu gets its weights in the formats its kernels read, where operators are
compiled for their formats (torch_npu's `Module.cast_weight`): convolutions FRACTAL_Z (3-D ones
FRACTAL_Z_3D), batch normalisation NC1HWC0, linear layers FRACTAL_NZ where matrix products are not kept
dense. Grouped convolutions stay NCHW.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from jumar.npu.formats import cast, mode, state
from jumar.npu.formats.names import Format

Tensor = torch.Tensor


def formats_of_weights(module: nn.Module) -> Iterator[tuple[str, Format]]:
    """Yield the names of a module's own parameters and buffers that get a private format, and that format."""
    if isinstance(module, nn.Linear) and not mode.keeps_matmul_dense():
        yield "weight", Format.FRACTAL_NZ
    if isinstance(module, nn.MultiheadAttention) and not mode.keeps_matmul_dense():
        yield from ((f"{part}_proj_weight", Format.FRACTAL_NZ) for part in "qkv")
    if not mode.is_online():
        return
    if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm1d)):
        yield from ((name, Format.NC1HWC0) for name in ("weight", "bias", "running_mean", "running_var"))
    elif isinstance(module, nn.Conv2d) and module.groups == 1:
        yield "weight", Format.FRACTAL_Z
    elif isinstance(module, nn.Conv3d):
        yield "weight", Format.FRACTAL_Z_3D


def cast_weight(module: nn.Module, device: Any = "npu") -> None:
    """Give the weights of a module and its children, as far as they are on the npu, their formats."""
    if device is None or "npu" not in str(device):
        return
    for part in module.modules():
        _cast_own(part)


def _cast_own(module: nn.Module) -> None:
    for name, format in formats_of_weights(module):
        tensor = getattr(module, name, None)
        if not isinstance(tensor, Tensor) or nn.parameter.is_lazy(tensor):
            continue
        if tensor.device.type == "npu" and state.layout_of(tensor) is None:
            with torch.no_grad():
                cast.npu_format_cast_(tensor, format)


def _after_moving() -> None:
    apply: Any = nn.Module._apply

    def _apply(self: nn.Module, fn: Callable[..., Any], recurse: bool = True) -> nn.Module:
        result: nn.Module = apply(self, fn, recurse)
        _cast_own(self)
        return result

    nn.Module._apply = _apply  # type: ignore[method-assign]


def _after_deep_copy() -> None:
    plain: Any = Tensor.__deepcopy__

    def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:
        copy: Tensor = plain(self, memo)
        layout = state.layout_of(self) if self.device.type == "npu" and not self.is_sparse else None
        if layout is not None and state.layout_of(copy) is None and state.fills(copy, layout):
            state.set_format(copy, layout.format)
        return copy

    Tensor.__deepcopy__ = __deepcopy__  # type: ignore[method-assign]


def format_cast(self: Tensor, acl_format: Any, customize_dtype: int | None = None) -> Tensor:
    """Return a tensor in another format, or in that of another tensor: `torch_npu.npu_format_cast`."""
    operator = torch.ops.npu.npu_format_cast
    # NOTE: choosing among overloads, PyTorch prints the arguments that do not fit: a tensor copied to the host.
    if isinstance(acl_format, Tensor):
        return operator.Tensor(self, acl_format)  # type: ignore[no-any-return]
    result: Tensor = operator.default(self, acl_format, customize_dtype=customize_dtype)
    return result


def format_cast_(tensor: Tensor, format_or_tensor: Any, **dtypes: int | None) -> Tensor:
    """Give a tensor another format, or the values of another tensor: `torch_npu.npu_format_cast_`."""
    operator = torch.ops.npu.npu_format_cast_
    chosen = operator.default if isinstance(format_or_tensor, Tensor) else operator.acl_format
    result: Tensor = chosen(tensor, format_or_tensor, **dtypes)
    return result


def _copy_memory_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy memory as it lies: `torch_npu.copy_memory_`."""
    result: Tensor = torch.ops.npu.copy_memory_(self, src, non_blocking)
    return result


def _storage_format(self: Any) -> int:
    """Return the number of the format of an npu storage; ND for one that was not cast."""
    layout = state.layout_of_storage(self)
    return int(Format.ND if layout is None else layout.format)


def install() -> None:
    """Add the methods. Called once, when the device comes up."""
    _after_moving()
    _after_deep_copy()
    tensor: Any = Tensor
    tensor.npu_format_cast, tensor.npu_format_cast_ = format_cast, format_cast_
    tensor.copy_memory_ = _copy_memory_
    module: Any = nn.Module
    module.cast_weight = cast_weight
    for storage in (torch.UntypedStorage, torch.TypedStorage):
        kind: Any = storage
        kind.npu_format = _storage_format
