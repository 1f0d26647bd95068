"""Makes recorded tensors again, with their strides, gaps and shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from jumar.comparison.replay.rebuilt.refusal import NotReplayable
from jumar.recording.schema import TensorRow

Array = npt.NDArray[Any]

MAX_GAPS = 1 << 26
"""Elements of memory between the recorded ones that are rebuilt at most; beyond, a tensor becomes contiguous."""


def tensors(
    rows: Iterable[TensorRow],
    arrays: Mapping[str, Array],
    dtype: Any,
    device: str,
    *,
    shared: bool = False,
    keep_offset: bool = False,
) -> dict[str, torch.Tensor]:
    """Return the recorded tensors by name, on `device`, of the dtype that `dtype(name of the recorded one)` returns.

    With `shared`, tensors of one recorded storage share memory again; with `keep_offset` they start where they
    did in it. Values that the storage held between the elements are 0. Raises NotReplayable for a tensor that was
    not recorded.
    """
    groups: dict[Any, list[TensorRow]] = {}
    for position, row in enumerate(rows):
        if row.name not in arrays:
            raise NotReplayable("not recorded", f"{row.name} ({row.dtype}, {row.format}) was not recorded")
        groups.setdefault((row.storage, row.dtype) if shared and row.storage else position, []).append(row)
    found: dict[str, torch.Tensor] = {}
    for members in groups.values():
        found |= _group(members, arrays, dtype, device, keep_offset)
    return found


def torch_dtype(name: str) -> torch.dtype:
    """Return the dtype called `float32`. Raises NotReplayable when this PyTorch has none."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise NotReplayable("not recorded", f"this PyTorch has no dtype {name}")
    return dtype


def to_tensor(array: Array, dtype: torch.dtype) -> torch.Tensor:
    """Return a recorded array (bfloat16 and float8 as float32, complex32 as raw integers) as a tensor of `dtype`."""
    # A single bfloat16 comes as a NumPy scalar; views of what was recorded are read-only, which PyTorch does not take.
    array = np.require(array, requirements="W")
    if array.dtype == np.uint32 and dtype.is_complex:
        return torch.from_numpy(array.view(np.int32)).view(torch.complex32).to(dtype)
    return torch.from_numpy(array).to(dtype)


def _group(
    members: Sequence[TensorRow], arrays: Mapping[str, Array], dtype: Any, device: str, keep_offset: bool
) -> dict[str, torch.Tensor]:
    kind = dtype(members[0].dtype)
    spans = [_span(row) for row in members]
    first = 0 if keep_offset else min(row.storage_offset for row in members)
    extent = max(row.storage_offset + span for row, span in zip(members, spans, strict=True)) - first
    num_elements = max(arrays[row.name].size for row in members)
    if extent - num_elements > MAX_GAPS or any(len(row.stride) != len(row.shape) for row in members):
        return {row.name: to_tensor(arrays[row.name].copy(), kind).to(device) for row in members}
    buffer = np.zeros(extent, arrays[members[0].name].dtype)
    for row in members:
        _view(buffer, row, first)[...] = arrays[row.name].reshape(row.shape)
    memory = to_tensor(buffer, kind).to(device)
    return {row.name: memory.as_strided(row.shape, row.stride, row.storage_offset - first) for row in members}


def _span(row: TensorRow) -> int:
    """Return the elements of memory from the first to the last of a tensor."""
    if 0 in row.shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(row.shape, row.stride, strict=False))


def _view(buffer: Array, row: TensorRow, first: int) -> Array:
    size = buffer.itemsize
    return np.lib.stride_tricks.as_strided(
        buffer[row.storage_offset - first :], row.shape, [step * size for step in row.stride], writeable=True
    )


def covers(row: TensorRow, shape: Sequence[int], stride: Sequence[int], offset: int) -> bool:
    """Return whether every element of the view (absolute `offset`) is an element of the recorded tensor."""
    first = min(row.storage_offset, offset)
    of_view = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) if 0 not in shape else 0
    extent = max(row.storage_offset + _span(row), offset + of_view) - first
    known = np.zeros(extent, np.bool_)
    np.lib.stride_tricks.as_strided(known[row.storage_offset - first :], row.shape, row.stride)[...] = True
    return bool(np.lib.stride_tricks.as_strided(known[offset - first :], shape, stride).all())
