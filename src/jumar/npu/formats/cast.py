"""The vendor's functions about formats: `npu_format_cast`, `get_npu_format`, `empty_with_format` and others.

They change the state of a tensor's memory (and what it is counted as), never its values.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from jumar.npu.core import devices
from jumar.npu.core.retag import take, to_cpu
from jumar.npu.core.state import STATE
from jumar.npu.dispatch import arguments
from jumar.npu.formats import mode, state
from jumar.npu.formats.names import BASE_FORMATS, PRIVATE_FORMATS, Format, base_of, base_of_rank, known
from jumar.npu.formats.shapes import Shape, storage_shape
from jumar.npu.memory.memory import index_of
from jumar.npu.memory.sharing import belongs
from jumar.npu.memory.storage import repoint

Tensor = torch.Tensor


class _CastFrom(threading.local):
    format: Format = Format.ND


IN_PLACE = "npu::npu_format_cast_.acl_format"
CAST_FROM = _CastFrom()
"""What the calling thread's last cast in place started from: afterwards the tensor no longer says."""
_NOT_NPU = (
    "Expected all tensors to be on the same device. Expected NPU tensor, please check whether the input tensor device "
    "is correct."
)


def storable(shape: Sequence[int], format: Format) -> Format:
    """Return the format a new tensor of this shape really gets where one asks for `format`.

    FRACTAL_NZ needs two dimensions, NCHW four, NCDHW five; what has fewer becomes ND (torch_npu's InferFormat).
    """
    rank = len(shape)
    if format is Format.FRACTAL_NZ and rank < 2:
        warnings.warn(
            "Cannot create tensor with NZ format while dim < 2, tensor will be created with ND format.", stacklevel=2
        )
        return Format.ND
    if format is Format.NCDHW:
        return base_of_rank(rank)
    is_number = rank == 0 or (rank == 1 and shape[0] == 1 and base_of(format) is Format.ND)
    return Format.ND if is_number or (format is Format.NCHW and rank != 4) else format


def permitted(format: Format) -> Format:
    """Return `format`, or its dense one with a warning where private formats are not allowed."""
    if format in BASE_FORMATS or mode.allows_internal():
        return format
    warnings.warn(
        "Cannot create tensor with internal format while allow_internal_format=False, tensor will be created with "
        "base format.",
        stacklevel=2,
    )
    return base_of(format)


def npu_format_cast(
    tensor: Tensor, format: int, customize_dtype: int | None = None, input_dtype: int | None = None
) -> Tensor:
    """Return the tensor in another format; the tensor itself where it has that format.

    A view of private memory is cast with all of that memory and stays a view of it; a dense view is copied.
    The dtypes say for whom packed items are padded, which changes nothing here. Raises RuntimeError for a
    format the device cannot make or the shape cannot take, and for a dtype on a chip before Ascend910B1.
    """
    _check_dtypes(customize_dtype, input_dtype)
    target = known(int(format))
    if state.format_of(tensor) is target:
        return tensor
    whole = _whole(tensor)
    target = permitted(storable(whole.shape, target))
    storage_shape(whole.shape, target)
    if target in BASE_FORMATS and state.format_of(tensor) in BASE_FORMATS:
        state.set_format(tensor, target)
        return tensor
    fresh: Tensor = arguments.wrap(to_cpu(whole).clone(memory_format=torch.contiguous_format), index_of(tensor))
    state.set_format(fresh, target)
    if whole.shape == tensor.shape:
        return fresh
    return torch.as_strided(fresh, tensor.shape, tensor.stride(), tensor.storage_offset())


def npu_format_cast_(
    tensor: Tensor, format: int, customize_dtype: int | None = None, input_dtype: int | None = None
) -> Tensor:
    """Give the tensor's own memory another format. Raises as `npu_format_cast` does."""
    _check_dtypes(customize_dtype, input_dtype)
    target = known(int(format))
    CAST_FROM.format = state.format_of(tensor)
    if state.format_of(tensor) is target:
        return tensor
    if state.layout_of(tensor) is None and not _is_whole(tensor):
        repoint(tensor, to_cpu(tensor).clone(memory_format=torch.contiguous_format), index_of(tensor))
    shape = state.describe(tensor).shape
    target = permitted(storable(shape, target))
    storage_shape(shape, target)
    state.set_format(tensor, target)
    return tensor


def get_npu_format(tensor: Tensor) -> Format:
    """Return the format of the memory behind an npu tensor. Raises RuntimeError for a tensor that is elsewhere."""
    if tensor.device.type != "npu":
        raise RuntimeError(_NOT_NPU)
    return state.format_of(tensor)


def get_storage_size(tensor: Tensor) -> int:
    """Return how many items the memory behind an npu tensor holds, padding included. Raises as `get_npu_format`."""
    if tensor.device.type != "npu":
        raise RuntimeError(_NOT_NPU)
    return state.storage_size(tensor)


def empty_with_format(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    acl_format: int = 2,
    base_addr_aligned_kb: int | None = None,
) -> Tensor:
    """Return an uninitialised npu tensor in a format, whether private formats are allowed or not.

    Raises RuntimeError for a device that is no npu, for pinned memory, and for a format that is none.
    """
    del base_addr_aligned_kb  # the memory is the host's, aligned as that is
    if device is not None and device.type != "npu":
        raise RuntimeError(_NOT_NPU)
    if pin_memory or layout not in (None, torch.strided):
        raise RuntimeError("Only dense CPU tensors can be pinned")
    shape = tuple(size)
    format = storable(shape, known(acl_format))
    storage_shape(shape, format)
    index = devices.index_of_argument(device, None) if STATE.multiple or (device and device.index) else 0
    made: Tensor = arguments.wrap(
        torch.empty(shape, dtype=dtype or torch.get_default_dtype(), device="cpu"), index or 0
    )
    state.set_format(made, format)
    return made


def empty_with_swapped_memory(
    size: Sequence[int], *, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> Tensor:
    """Return an uninitialised npu tensor whose memory is the host's: it takes none of the device's.

    Raises RuntimeError for a device that is no npu.
    """
    if device is not None and device.type != "npu":
        raise RuntimeError(_NOT_NPU)
    made = torch.empty(tuple(size), dtype=dtype or torch.get_default_dtype(), device="cpu")
    npu: Tensor = take(made)
    if STATE.multiple or (device is not None and device.index):
        belongs(npu.untyped_storage(), devices.index_of_argument(device, None) or 0)
    return npu


def unsafe_empty_with_format(
    size: Sequence[int], *, acl_format: int = 2, keep_format: bool = False, **options: Any
) -> Tensor:
    """`empty_with_format`, dense where private formats are not allowed unless `keep_format`."""
    format = known(acl_format)
    return empty_with_format(size, acl_format=format if keep_format else permitted(format), **options)


def copy_memory_(tensor: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy memory as it lies, whatever the formats. Both must be npu tensors of one device and dtype.

    Where the formats differ, a real device leaves the items in another order. Here their order stays.
    """
    del non_blocking  # every copy of the emulated device is finished when it returns
    if src.is_cpu:
        raise RuntimeError("copy_memory_ only support npu tensor")
    if src.dtype != tensor.dtype:
        raise RuntimeError("input tensors of copy_memory_ should have same dtype")
    if index_of(src) != index_of(tensor):
        raise RuntimeError("input tensors of copy_memory_ should have same device index")
    if any(item.storage_offset() and state.format_of(item) in PRIVATE_FORMATS for item in (tensor, src)):
        raise RuntimeError("copy_memory_ needs a tensor in a private format to begin at offset 0")
    to_cpu(tensor).copy_(to_cpu(src))
    return tensor


def _check_dtypes(*dtypes: int | None) -> None:
    if any(dtype is not None for dtype in dtypes) and not STATE.profile.is_aclnn_default:
        raise RuntimeError("customize_dtype is not supported by the current soc version.")


def _is_whole(tensor: Tensor) -> bool:
    return tensor.is_contiguous() and not tensor.storage_offset() and tensor.nbytes == tensor.untyped_storage().nbytes()


def _whole(tensor: Tensor) -> Tensor:
    """Return the tensor whose format is cast: all that a private memory holds, or a dense tensor by itself."""
    layout = state.layout_of(tensor)
    if layout is None:
        return tensor if _is_whole(tensor) else tensor.contiguous()
    if state.fills(tensor, layout):
        return tensor
    return torch.as_strided(tensor, layout.shape, _strides(layout.shape), 0)


def _strides(shape: Shape) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]
