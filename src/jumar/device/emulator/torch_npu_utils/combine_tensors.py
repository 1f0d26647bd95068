"""Several tensors in one piece of memory, so that one operator can update all of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["get_part_combined_tensor", "is_combined_tensor_valid", "npu_combine_tensors"]

Tensor = torch.Tensor


def npu_combine_tensors(list_of_tensor: Sequence[Tensor], require_copy_value: bool = True) -> Tensor | None:
    """Move tensors into one new tensor (1-d) and let them show its parts; None where there is nothing to combine.

    Without `require_copy_value` their values are lost: all become 0. Raises RuntimeError for tensors of several
    dtypes, not on the npu, or not contiguous.
    """
    if len(list_of_tensor) == 0:
        return None
    if any(tensor is None for tensor in list_of_tensor):
        raise RuntimeError("Tensors to combine must not have `None`.")
    dtype = list_of_tensor[0].dtype
    for tensor in list_of_tensor:
        if tensor.dtype != dtype:
            raise RuntimeError("Tensors to combine must have the same dtype.")
        if tensor.device.type != "npu":
            raise RuntimeError(f"Tensors to combine must be on NPU, got {tensor.device.type}.")
        if not tensor.is_contiguous():
            raise RuntimeError("Tensors to combine must be contiguous.")
    total = sum(tensor.numel() for tensor in list_of_tensor)
    if total == 0:
        return None
    combined = torch.zeros(total, dtype=dtype, device=list_of_tensor[0].device)
    start = 0
    for tensor in list_of_tensor:
        part = combined[start : start + tensor.numel()].view(tensor.shape)
        if require_copy_value:
            part.copy_(tensor.detach())
        tensor.data = part
        start += tensor.numel()
    return combined


def get_part_combined_tensor(combined_tensor: Tensor | None, index: int, size: int) -> Tensor | None:
    """Return elements `index` to `index + size` as a tensor over the same memory; None for none.

    Raises RuntimeError when there are not so many.
    """
    if combined_tensor is None or size == 0:
        return None
    if index + size > combined_tensor.numel():
        raise RuntimeError(
            f"(index + size) ({index + size}) > torch_npu.get_storage_size(combined_tensor) ({combined_tensor.numel()})"
        )
    return combined_tensor.detach()[index : index + size]


def is_combined_tensor_valid(combined_tensor: Tensor | None, list_of_tensor: Sequence[Tensor | None]) -> bool:
    """Return whether all tensors of the list still lie in the combined one, contiguous."""
    if len(list_of_tensor) == 0:
        return True
    if combined_tensor is None:
        return False
    start = combined_tensor.data_ptr()
    end = start + combined_tensor.nbytes
    return all(
        tensor is not None and start <= tensor.data_ptr() < end and tensor.is_contiguous() for tensor in list_of_tensor
    )
