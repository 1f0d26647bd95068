"""Round float32 tensors to HF32, an operand format of the matrix unit; the results stay float32 tensors.

HF32 keeps the 8 exponent bits of float32 and 11 explicit mantissa bits on A2 and A3 (10 on Ascend950), rounded
to nearest, ties away from zero. Source: the vendor's reference models of convolution (ops-nn, `conv2d_v2` and
`conv3d_backprop_filter_v2` tests) and of msprobe, which add half a unit to the bit pattern and cut it. The
hardware has a second mode, ties to even, which some of its kernels select; the two differ on exact ties only.
"""

from __future__ import annotations

import math
import threading

import torch

Tensor = torch.Tensor

_BLOCK = 1 << 18
"""Elements rounded at a time: 1 MiB, so that the second and third pass over a block find it in the cache."""
_MAX_SCRATCH = 1 << 26
"""Elements of the largest scratch buffer that is kept: 256 MiB."""


class _Scratch(threading.local):
    """Buffers of this thread, by role. Fresh memory of this size costs more in page faults than the rounding."""

    def __init__(self) -> None:
        self.buffers: dict[str, Tensor] = {}


_scratch = _Scratch()


def to_hf32(tensor: Tensor, mantissa_bits: int = 11, scratch: str = "") -> Tensor:
    """Return a float32 tensor of any shape rounded to HF32; Inf and NaN stay what they are.

    With a `scratch` role the result may lie in a buffer of this thread, and is then valid until the next
    call with the same role.
    """
    drop = 23 - mantissa_bits
    half, mask = 1 << (drop - 1), -(1 << drop)
    if tensor.numel() <= _BLOCK:
        result = torch.nan_to_num(tensor, math.nan, math.inf, -math.inf)
        result.view(torch.int32).add_(half).bitwise_and_(mask)
        return result
    if not _is_dense(tensor):
        tensor = tensor.contiguous()
    result = _buffer(tensor, scratch)
    target = _flat(result)
    parts = zip(_split(_flat(tensor)), _split(target), _split(target.view(torch.int32)), strict=True)
    for part, out, bits in parts:
        # NOTE: the first pass makes every NaN the canonical one. A NaN with all mantissa bits set, as CUDA writes
        # it, would else carry into the sign and come out as zero.
        torch.nan_to_num(part, math.nan, math.inf, -math.inf, out=out)
        bits.add_(half).bitwise_and_(mask)
    return result


_is_dense = torch.ops.aten.is_non_overlapping_and_dense.default
"""Whether the elements fill their span of memory once, in whatever order."""


def _split(tensor: Tensor) -> tuple[Tensor, ...]:
    blocks: tuple[Tensor, ...] = torch.ops.aten.split.Tensor(tensor, _BLOCK)
    return blocks


def _flat(tensor: Tensor) -> Tensor:
    return tensor.as_strided((tensor.numel(),), (1,))


def _buffer(like: Tensor, role: str) -> Tensor:
    """Return uninitialised memory with the shape and strides of a dense tensor."""
    num = like.numel()
    if not role or num <= _BLOCK or num > _MAX_SCRATCH:
        return torch.empty_like(like)
    found = _scratch.buffers.get(role)
    if found is None or found.numel() < num:
        found = _scratch.buffers[role] = torch.empty(num, dtype=torch.float32, device="cpu")
    return found.as_strided(like.shape, like.stride())
