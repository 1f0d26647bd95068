"""Which format the memory of each npu tensor has.

The state is an attribute of the storage's Python object, which PyTorch keeps alive as long as the
storage itself: every view sees it, and it goes when the memory does. A storage without the attribute is
dense.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from jumar.npu.formats.names import BASE_FORMATS, PRIVATE_FORMATS, Format, base_of, base_of_rank
from jumar.npu.formats.shapes import BLOCK, Shape, storage_bytes, storage_shape
from jumar.npu.memory import memory

_ATTRIBUTE = "_jumar_layout"


class Layout(NamedTuple):
    """What one storage holds: a whole tensor of `shape`, densely strided, in `format`."""

    format: Format
    shape: Shape


def layout_of(tensor: torch.Tensor) -> Layout | None:
    """Return what the storage of this npu tensor holds; None for a dense one that was not cast."""
    if tensor.layout is not torch.strided:
        return None  # a sparse tensor has no storage
    return getattr(tensor.untyped_storage(), _ATTRIBUTE, None)


def layout_of_storage(storage: torch.UntypedStorage | torch.TypedStorage) -> Layout | None:
    """Return what this storage holds; None for a dense one that was not cast."""
    untyped = storage._untyped_storage if isinstance(storage, torch.TypedStorage) else storage
    return getattr(untyped, _ATTRIBUTE, None)


def format_of(tensor: torch.Tensor) -> Format:
    """Return the format of the memory behind this tensor, which its views share (`get_npu_format`)."""
    layout = None if tensor.is_cpu else layout_of(tensor)
    return base_of_rank(tensor.dim()) if layout is None else layout.format


def fills(tensor: torch.Tensor, layout: Layout) -> bool:
    """Return whether the tensor is the storage's whole tensor, in its order: not a part, not another shape."""
    return tensor.shape == layout.shape and tensor.storage_offset() == 0 and tensor.is_contiguous()


def usable_format(tensor: torch.Tensor, transposable: bool = False) -> Format:
    """Return the format in which an operator can read this tensor.

    That is the memory's for a whole tensor and for whole blocks of channels; any other view of private
    memory has to be converted to its dense format before an operator reads it. A `transposable` operator
    (a matrix product) reads a transposed matrix as it is.
    """
    layout = None if tensor.is_cpu else layout_of(tensor)
    if layout is None:
        return base_of_rank(tensor.dim())
    if layout.format in BASE_FORMATS:
        return layout.format if tensor.dim() == len(layout.shape) else base_of_rank(tensor.dim())
    if fills(tensor, layout) or _is_blocks_of_channels(tensor, layout):
        return layout.format
    if transposable and _is_transposed(tensor, layout):
        return layout.format
    return base_of_rank(tensor.dim())


def _is_transposed(tensor: torch.Tensor, layout: Layout) -> bool:
    """Return whether the tensor is the storage's matrices with rows and columns exchanged."""
    # NOTE: the ledger asks this while an operator is told; an operator called here would be told too.
    *outer, rows, columns = layout.shape if len(layout.shape) > 1 else (0, 0)
    return (
        tensor.storage_offset() == 0
        and tuple(tensor.shape) == (*outer, columns, rows)
        and tensor.stride()[-2:] == (1, columns)
        and (not outer or tensor.stride()[-3] == rows * columns)
    )


def _is_blocks_of_channels(tensor: torch.Tensor, layout: Layout) -> bool:
    """Return whether the tensor is a slice of channels, cut at multiples of the block (torch_npu's 5HD slices)."""
    if layout.format is not Format.NC1HWC0 or tensor.dim() != 4 or len(layout.shape) != 4:
        return False
    _, channels, height, width = tensor.shape
    plane = layout.shape[2] * layout.shape[3]
    return (
        (height, width) == layout.shape[2:]
        and tensor.stride()[1:] == (plane, width, 1)
        and channels % BLOCK == 0
        and tensor.storage_offset() % (BLOCK * plane) == 0
    )


def set_format(tensor: torch.Tensor, format: Format) -> None:
    """Give the memory behind a whole npu tensor a format, and count its padding from now on.

    Raises torch.OutOfMemoryError where the padding does not fit.
    """
    storage = tensor.untyped_storage()
    before: Layout | None = getattr(storage, _ATTRIBUTE, None)
    if before is None and format is base_of_rank(tensor.dim()):
        return
    shape = tuple(tensor.shape) if before is None else before.shape
    if format in PRIVATE_FORMATS or (before is not None and before.format in PRIVATE_FORMATS):
        memory.charge(tensor, storage_bytes(shape, format, tensor.element_size()))
    if format is base_of_rank(len(shape)):
        delattr(storage, _ATTRIBUTE)
    else:
        setattr(storage, _ATTRIBUTE, Layout(format, shape))


def give(tensor: torch.Tensor, layout: Layout, size_bytes: int) -> None:
    """Say what the memory of a new tensor holds, and how much it counts as. A tensor with gaps stays dense."""
    if tensor.is_contiguous():
        storage = tensor.untyped_storage()
        setattr(storage, _ATTRIBUTE, layout)
        if size_bytes != storage.nbytes():
            memory.charge(tensor, size_bytes)


def describe(tensor: torch.Tensor) -> Layout:
    """Return what the storage holds; for a dense one, the tensor itself."""
    return layout_of(tensor) or Layout(base_of_rank(tensor.dim()), tuple(tensor.shape))


def storage_size(tensor: torch.Tensor) -> int:
    """Return how many items the memory behind the tensor holds, padding included (`get_storage_size`)."""
    layout = layout_of(tensor)
    if layout is None:
        return tensor.untyped_storage().nbytes() // tensor.element_size()
    size = 1
    for dim in storage_shape(layout.shape, layout.format, tensor.element_size()):
        size *= dim
    return size


def dense_format(format: Format, rank: int) -> Format:
    """Return the dense format that a tensor of this rank is converted to from a private one."""
    found = base_of(format)
    return found if (found, rank) in ((Format.NCHW, 4), (Format.NCDHW, 5)) else base_of_rank(rank)
