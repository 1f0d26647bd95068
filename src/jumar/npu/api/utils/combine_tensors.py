"""Combined tensors: several tensors moved into one flat buffer, each keeping its identity and its values.

The fused optimizers of `torch_npu.optim` are built on them. Every tensor gets a storage of its own over its
part of the buffer's memory, so that it keeps its format and is saved by itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch

from jumar.npu.core.plans import CPU_KEYS
from jumar.npu.core.retag import to_cpu, to_npu
from jumar.npu.core.versions.kernels import get_kernel
from jumar.npu.formats import get_storage_size, state
from jumar.npu.memory.memory import INDEX_OF_STORAGE, charge, index_of

Tensor = torch.Tensor

# NOTE: PyTorch's own kernel, called without the dispatcher: nothing runs on the device.
_set = get_kernel("aten::set_.source_Storage_storage_offset", "CPU").call_boxed

__all__ = ["get_part_combined_tensor", "is_combined_tensor_valid", "npu_combine_tensors"]


@torch.no_grad()
def npu_combine_tensors(list_of_tensor: Sequence[Tensor | None], require_copy_value: bool = True) -> Tensor | None:
    """Move tensors into one new flat tensor and return it, or None when they hold no element.

    Afterwards each tensor shows its part of the result, in order; with `require_copy_value=False` the
    parts are zero. Raises RuntimeError unless all are contiguous npu tensors of one dtype.
    """
    tensors = _checked(list_of_tensor)
    num_elements = sum(tensor.numel() for tensor in tensors)
    if num_elements == 0:
        return None
    combined = torch.zeros(num_elements, dtype=tensors[0].dtype, device=tensors[0].device)
    size_bytes = sum(map(_num_items, tensors)) * combined.element_size()
    if size_bytes > combined.nbytes:
        charge(combined, size_bytes)
    start = 0
    for tensor in tensors:
        if require_copy_value:
            combined[start : start + tensor.numel()].copy_(tensor.view(-1))
        _show(tensor, combined, start)
        start += tensor.numel()
    return combined


@torch.no_grad()
def get_part_combined_tensor(combined_tensor: Tensor | None, index: int, size: int) -> Tensor | None:
    """Return a flat tensor over `size` elements of a combined tensor from `index` on; None for nothing.

    Raises RuntimeError when the combined tensor ends before the part does.
    """
    if combined_tensor is None or size == 0:
        return None
    if index + size > combined_tensor.numel():
        raise RuntimeError(
            f"(index + size) ({index + size}) > torch_npu.get_storage_size(combined_tensor) ({combined_tensor.numel()})"
        )
    part = torch.empty(size, dtype=combined_tensor.dtype, device=combined_tensor.device)
    _show(part, combined_tensor, index)
    return part


def is_combined_tensor_valid(combined_tensor: Tensor | None, list_of_tensor: Sequence[Tensor | None]) -> bool:
    """Return whether every tensor still lies contiguously within the combined tensor's memory."""
    if not list_of_tensor:
        return True
    if combined_tensor is None:
        return False
    start = combined_tensor.data_ptr()
    end = start + combined_tensor.nbytes
    return all(
        tensor is not None and start <= tensor.data_ptr() < end and tensor.is_contiguous() for tensor in list_of_tensor
    )


def _checked(tensors: Sequence[Tensor | None]) -> list[Tensor]:
    present = [tensor for tensor in tensors if tensor is not None]
    if len(present) < len(tensors):
        raise RuntimeError("Tensors to combine must not have `None`.")
    for tensor in present:
        if tensor.dtype != present[0].dtype:
            raise RuntimeError("Tensors to combine must have the same dtype.")
        if tensor.device.type != "npu":
            raise RuntimeError(f"Tensors to combine must be on NPU, got {tensor.device.type}.")
        if not tensor.is_contiguous():
            raise RuntimeError("Tensors to combine must be contiguous.")
    return present


def _num_items(tensor: Tensor) -> int:
    """Return how many items a tensor takes, the padding of a private format included."""
    return tensor.numel() if state.layout_of(tensor) is None else get_storage_size(tensor)


def _show(tensor: Tensor, combined: Tensor, start: int) -> None:
    """Let `tensor` show the combined tensor's memory from element `start` on, in its own shape and format."""
    layout, index = state.layout_of(tensor), index_of(combined)
    memory = to_cpu(combined)[start : start + tensor.numel()].view(tensor.shape)
    storage = to_npu(memory).untyped_storage()
    if index:
        INDEX_OF_STORAGE[storage._cdata] = index
        weakref.finalize(storage, INDEX_OF_STORAGE.pop, storage._cdata, None)
    _set(CPU_KEYS, tensor, storage, 0, list(tensor.shape), list(tensor.stride()))
    if layout is not None:
        # NOTE: not `state.set_format`, which would count the padding of this part again.
        setattr(tensor.untyped_storage(), state._ATTRIBUTE, layout)
