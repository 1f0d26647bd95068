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
    """Channels in blocks of 16, the block innermost ("5HD"): what the convolution unit reads."""
    FRACTAL_Z = 4
    """Weights of a convolution, in 16 x 16 blocks."""
    NC1HWC0_C04 = 12
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    """A matrix in blocks of 16 rows, the blocks in column order."""
    NCDHW = 30
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33
    NC = 35
    NCL = 47
    FRACTAL_NZ_C0_16 = 50
    FRACTAL_NZ_C0_32 = 51
    FRACTAL_NZ_C0_2 = 52
    FRACTAL_NZ_C0_4 = 53
    FRACTAL_NZ_C0_8 = 54

    def __str__(self) -> str:
        return self.name

    __format__ = object.__format__  # type: ignore[assignment]


_BASE_OF = {
    Format.NCHW: Format.NCHW,
    Format.NHWC: Format.NHWC,
    Format.ND: Format.ND,
    Format.NDHWC: Format.NCDHW,
    Format.NCDHW: Format.NCDHW,
    Format.NC1HWC0: Format.NCHW,
    Format.FRACTAL_Z: Format.NCHW,
    Format.FRACTAL_NZ: Format.ND,
    Format.FRACTAL_NZ_C0_16: Format.ND,
    Format.FRACTAL_NZ_C0_32: Format.ND,
    Format.FRACTAL_NZ_C0_2: Format.ND,
    Format.FRACTAL_NZ_C0_4: Format.ND,
    Format.NDC1HWC0: Format.NCDHW,
    Format.FRACTAL_Z_3D: Format.NCDHW,
}
"""The dense format a format is converted from and to, as in torch_npu's own table. Formats that are not here
have a number, but torch_npu cannot make tensors of them."""

KNOWN_FORMATS = frozenset(_BASE_OF)
BASE_FORMATS = frozenset({Format.NCHW, Format.NHWC, Format.ND, Format.NDHWC, Format.NCDHW})
"""Formats that are plain dense arrays."""
PRIVATE_FORMATS = KNOWN_FORMATS - BASE_FORMATS
"""Formats that are blocked and padded, and that only the device's operators read."""


def base_of(format: Format) -> Format:
    """Return the dense format that this one is converted from and to."""
    return _BASE_OF[format]


def base_of_rank(rank: int) -> Format:
    """Return the format of a tensor of this rank that was not cast: NCHW of 4, NCDHW of 5, else ND."""
    if rank == 4:
        return Format.NCHW
    return Format.NCDHW if rank == 5 else Format.ND


def known(number: int) -> Format:
    """Return the format with this number. Raises RuntimeError, as the device does, for one it cannot make."""
    try:
        found = Format(number)
    except ValueError:
        found = Format.UNDEFINED
    if found not in KNOWN_FORMATS:
        names = ", ".join(f"{item} ({int(item)})" for item in sorted(KNOWN_FORMATS))
        raise RuntimeError(f"unknown format type: {int(number)}; the formats of this device are {names}")
    return found
