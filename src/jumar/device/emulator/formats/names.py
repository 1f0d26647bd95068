"""The formats a tensor's memory may have on the device, with the vendor's numbers (`aclFormat`)."""

from __future__ import annotations

import enum


class Format(enum.IntEnum):
    """A memory format. `torch_npu.Format`; an integer of the same value stands for it anywhere."""

    UNDEFINED = -1
    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    """Channels in blocks of C0, the inner dimension: what the convolution unit reads."""
    FRACTAL_Z = 4
    """Weights of a convolution in 16 x C0 blocks."""
    NC1HWC0_C04 = 12
    """Channels padded to 4: first layers with 3 channels."""
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    """A matrix in 16 x C0 blocks, the blocks in column order."""
    NCDHW = 30
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33

    def __str__(self) -> str:
        return self.name


BASE_FORMATS = frozenset({Format.NCHW, Format.NHWC, Format.ND, Format.HWCN, Format.NDHWC, Format.NCDHW})
"""Formats that are plain dense arrays. All others are private: blocked, padded, known to the device only."""


def base_of_rank(rank: int) -> Format:
    """Return the format of a tensor of this rank that nobody has cast: NCHW of 4, NCDHW of 5, else ND."""
    if rank == 4:
        return Format.NCHW
    return Format.NCDHW if rank == 5 else Format.ND
