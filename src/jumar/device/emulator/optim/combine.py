"""Combined tensors: several tensors moved into one flat buffer, each keeping its identity and its values.

`torch_npu.utils` has these three functions too. One difference to the vendor's, which gives every tensor
a storage of its own over the buffer's memory: here they share the buffer's storage, so `storage_offset`
is where a tensor begins, and saving one of them saves the buffer.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

Tensor = torch.Tensor

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
    part = torch.empty(0, dtype=combined_tensor.dtype, device=combined_tensor.device)
    return part.set_(combined_tensor.untyped_storage(), combined_tensor.storage_offset() + index, (size,), (1,))


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


def _show(tensor: Tensor, combined: Tensor, start: int) -> None:
    """Let `tensor` show the combined tensor's memory from element `start` on, in its own shape."""
    tensor.set_(combined.untyped_storage(), start, tensor.shape, tensor.stride())
