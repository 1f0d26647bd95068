"""Packed sequences: `_pack_padded_sequence`, `_pad_packed_sequence`, and recurrent networks over them.

An NPU does not take the padding out of a packed sequence: its data has (longest * batch, ...) rows, time first, and
`batch_sizes` alone tells which rows are real. To pad it again is a reshape, so `total_length` and `padding_value` do
nothing there. Source: `PackPaddedSequenceKernelNpuOpApi.cpp`, `PadPackedSequenceKernelNpuOpApi.cpp` of op-plugin. Chips
of the first generation do the same. In exact numerics the rows are the CPU's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.core.plans import CPU_KEYS
from jumar.npu.core.state import STATE
from jumar.npu.core.versions.kernels import get_kernel

Tensor = torch.Tensor
_pad_on_cpu = get_kernel("aten::_pad_packed_sequence", "CPU").call_boxed


def _keeps_padding() -> bool:
    return STATE.settings.numerics != "exact"


def pack_padded_sequence(input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """`_pack_padded_sequence`: the data (rows, ...) and the batch size of each time step, int64 on the CPU.

    `input` is (time, batch, ...), or (batch, time, ...) with `batch_first`; `lengths` (batch,) descends.
    """
    steps = input.transpose(0, 1) if batch_first else input
    batch = steps.shape[1]
    if not lengths.is_cpu:
        raise RuntimeError(f"'lengths' argument should be a CPU tensor, but got {lengths.device} tensor")
    if lengths.shape[0] != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.shape[0]} (batch_size={batch})"
        )
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    known = lengths.tolist()
    if known[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(earlier < later for earlier, later in itertools.pairwise(known)):
        raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True.")
    longest = known[0]
    if longest > steps.shape[0]:
        raise RuntimeError(f"Expected the longest of `lengths` to be at most {steps.shape[0]}, but got {longest}")
    sizes = (lengths.unsqueeze(0) > torch.arange(longest).unsqueeze(1)).sum(1)
    data = steps[:longest].reshape(longest * batch, *steps.shape[2:])
    return (data.clone() if _keeps_padding() else data.index_select(0, _real_rows(sizes).to(data.device))), sizes


def _real_rows(batch_sizes: Tensor) -> Tensor:
    """Return which rows of time * batch hold an element of a sequence."""
    batch = int(batch_sizes[0])
    taken = torch.arange(batch).unsqueeze(0) < batch_sizes.cpu().unsqueeze(1)
    return taken.flatten().nonzero().flatten()


def pad_packed_sequence(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: Any, total_length: int
) -> tuple[Tensor, Tensor]:
    """`_pad_packed_sequence`: (time, batch, ...), or batch first, and the length of each sequence."""
    if not _keeps_padding():
        padded: tuple[Tensor, Tensor] = _pad_on_cpu(
            CPU_KEYS, data, batch_sizes, batch_first, padding_value, total_length
        )
        return padded
    longest, batch = batch_sizes.shape[0], int(batch_sizes[0])
    if 0 < total_length < longest:
        raise RuntimeError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}"
        )
    steps = data.reshape(longest, batch, *data.shape[1:])
    lengths = (batch_sizes.cpu().unsqueeze(0) > torch.arange(batch).unsqueeze(1)).sum(1)
    return (steps.transpose(0, 1) if batch_first else steps).contiguous(), lengths


def without_padding(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a recurrent network over packed data (`lstm.data`) that takes data with its padding, and gives it back.

    The rows of the padding are 0 in the output, as the vendor's sequence mask makes them.
    """

    def call(data: Tensor, batch_sizes: Tensor, *args: Any, **kwargs: Any) -> Any:
        num_real = int(batch_sizes.sum())
        num_rows = batch_sizes.shape[0] * int(batch_sizes[0])
        if data.shape[0] == num_real or data.shape[0] != num_rows or not _keeps_padding():
            return run(data, batch_sizes, *args, **kwargs)
        rows = _real_rows(batch_sizes).to(data.device)
        output, *states = run(data.index_select(0, rows), batch_sizes, *args, **kwargs)
        return (output.new_zeros((num_rows, *output.shape[1:])).index_copy(0, rows, output), *states)

    return call


COMPOSITES: dict[str, Callable[..., Any]] = {
    "aten::_pack_padded_sequence": pack_padded_sequence,
    "aten::_pad_packed_sequence": pad_packed_sequence,
}
"""Kernels for the autograd key: they call differentiable operators."""
