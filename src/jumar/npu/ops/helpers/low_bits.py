"""Integers of 4 bits in words of 32, scales packed for the cube unit, and the vendor's numbers of dtypes."""

from __future__ import annotations

import torch

from jumar.npu.ops.helpers.checks import expect, refuse

Tensor = torch.Tensor

INT8, QUINT4X2 = 1, 16
_DTYPES = {
    0: torch.uint8,
    1: torch.int8,
    3: torch.int32,
    5: torch.float16,
    6: torch.float32,
    12: torch.int8,
    13: torch.uint8,
    14: torch.int32,
    15: torch.bfloat16,
    16: torch.int32,
}
"""Storage of PyTorch's scalar types by number (c10/core/ScalarType.h); quantised types are plain integers."""
_PER_WORD = 8
_HIGH_19_BITS = -8192
"""0xFFFFE000: sign, exponent and 10 bits of mantissa."""
_IS_SCALE = 1 << 46
_OFFSET_BIT = 37


def dtype_of(number: int | torch.dtype | None, default: torch.dtype, operator: str) -> torch.dtype:
    """Return the dtype that an argument is, or names by a number. Raises NotImplementedError for 8-bit floats."""
    if number is None or isinstance(number, torch.dtype):
        return number or default
    if number not in _DTYPES:
        refuse(operator, f"the dtype number {number}", "use an integer or a 16- or 32-bit float")
    return _DTYPES[number]


def pack_int4(values: Tensor, operator: str) -> Tensor:
    """Return integers from -8 to 7, (..., 8 n), as words (..., n) of int32: the first is in the lowest bits."""
    size = values.shape[-1]
    expect(size % _PER_WORD == 0, operator, "the last dimension must be a multiple of 8 for 4-bit results", size)
    shifts = torch.arange(0, 32, 4, device=values.device)
    words = ((values.long() & 15).reshape(*values.shape[:-1], -1, _PER_WORD) << shifts).sum(-1)
    return ((words + 2**31) % 2**32 - 2**31).int()


def unpack_int4(words: Tensor) -> Tensor:
    """Return the integers from -8 to 7 in words of int32, as int32."""
    shifts = torch.arange(0, 32, 4, device=words.device, dtype=torch.int32)
    nibbles = (words.unsqueeze(-1) >> shifts) & 15
    return torch.where(nibbles > 7, nibbles - 16, nibbles).reshape(*words.shape[:-1], -1)


def pack_scale(scale: Tensor, offset: Tensor | None) -> Tensor:
    """Return float32 scales, and offsets rounded to 9 bits, as the int64 words that the cube unit reads."""
    bits = scale.float().contiguous().view(torch.int32) & _HIGH_19_BITS
    words = (bits.long() & 0xFFFFFFFF) | _IS_SCALE
    if offset is None:
        return words
    whole = offset.float().round().clamp(-256, 255).long()
    return (words & 0x4000FFFFFFFF) | ((whole & 0x1FF) << _OFFSET_BIT)


def scale_of(scale: Tensor) -> Tensor:
    """Return scales in float32; int64 ones are the words of `pack_scale`."""
    if scale.dtype != torch.int64:
        return scale.float()
    bits = scale & 0xFFFFFFFF
    return torch.where(bits >= 2**31, bits - 2**32, bits).int().view(torch.float32)


def offset_of(scale: Tensor) -> Tensor | None:
    """Return the offsets packed into int64 scales, or None for other scales."""
    if scale.dtype != torch.int64:
        return None
    nine = (scale >> _OFFSET_BIT) & 0x1FF
    return torch.where(nine > 255, nine - 512, nine).float()


def to_int8(values: Tensor) -> Tensor:
    """Return values rounded half to even and cut to the range of int8."""
    return values.round().clamp(-128, 127).to(torch.int8)
