"""How much memory a tensor takes in a format: the shape of its storage, padding included.

The arithmetic is that of torch_npu's storage descriptions. Blocks are 16 wide for every dtype, except
FRACTAL_NZ's inner one, which is 32 bytes (32 for int8, 16 for float16; wider dtypes count as float16,
which the matrix unit converts them to).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jumar.npu.formats.names import Format

Shape = tuple[int, ...]
BLOCK = 16
_BLOCK_BYTES = 32
_INNER = {
    Format.FRACTAL_NZ_C0_16: 16,
    Format.FRACTAL_NZ_C0_32: 32,
    Format.FRACTAL_NZ_C0_2: 2,
    Format.FRACTAL_NZ_C0_4: 4,
}


def storage_shape(shape: Sequence[int], format: Format, itemsize: int = 2) -> Shape:
    """Return the shape in memory of a tensor of `shape` whose items take `itemsize` bytes.

    Raises RuntimeError for a shape that the format cannot hold (a 4-D one in a 3-D format, or the reverse).
    """
    dims = tuple(int(size) for size in shape)
    if format is Format.FRACTAL_NZ or format in _INNER:
        return _nz(dims, _INNER.get(format) or _BLOCK_BYTES // min(itemsize, 2))
    made = _SHAPES.get(format)
    return dims if made is None else made(dims)


def storage_bytes(shape: Sequence[int], format: Format, itemsize: int) -> int:
    """Return the bytes that a tensor takes in memory, padding included."""
    return math.prod(storage_shape(shape, format, itemsize)) * itemsize


def to_rank_4(shape: Shape) -> Shape:
    """Return a shape as NCHW reads it: a single dimension is C, two are C and H, three C, H and W."""
    if len(shape) > 4:
        raise RuntimeError(f"dims of NCHW shape should not be greater than 4, which is {len(shape)}")
    return (1, *shape, *(1,) * (3 - len(shape))) if len(shape) < 4 else shape


def _blocks(size: int, block: int = BLOCK) -> int:
    return -(-size // block)


def _nz(shape: Shape, inner: int) -> Shape:
    padded = shape if len(shape) > 1 else (*shape, 1) if shape else (1, 1)
    *outer, rows, columns = padded
    return (*outer, _blocks(columns, inner), _blocks(rows), BLOCK, inner)


def _nc1hwc0(shape: Shape) -> Shape:
    n, c, h, w = to_rank_4(shape)
    return (n, _blocks(c), h, w, BLOCK)


def _fractal_z(shape: Shape) -> Shape:
    n, c, h, w = to_rank_4(shape)
    return (_blocks(c) * h * w, _blocks(n), BLOCK, BLOCK)


def _three(shape: Shape, format: Format) -> Shape:
    if len(shape) != 5:
        raise RuntimeError(f"dim {list(shape)} cannot convert to {format}: it takes 5 dimensions (N, C, D, H, W)")
    return shape


def _ndc1hwc0(shape: Shape) -> Shape:
    n, c, d, h, w = _three(shape, Format.NDC1HWC0)
    return (n, d, _blocks(c), h, w, BLOCK)


def _fractal_z_3d(shape: Shape) -> Shape:
    n, c, d, h, w = _three(shape, Format.FRACTAL_Z_3D)
    return (d * _blocks(c) * h * w, _blocks(n), BLOCK, BLOCK)


def _ndhwc(shape: Shape) -> Shape:
    n, c, d, h, w = _three(shape, Format.NDHWC)
    return (n, d, h, w, c)


_SHAPES: dict[Format, Callable[[Shape], Shape]] = {
    Format.NC1HWC0: _nc1hwc0,
    Format.FRACTAL_Z: _fractal_z,
    Format.NDC1HWC0: _ndc1hwc0,
    Format.FRACTAL_Z_3D: _fractal_z_3d,
    Format.NDHWC: _ndhwc,
}
