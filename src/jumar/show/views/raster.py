"""Rasters: a matrix as a PNG inside the page, one pixel a number, colour by sign and strength by size.

The picture is transparent where the numbers are small, so that one picture serves the light and the dark page.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from jumar.base.text.digits import number_text
from jumar.show.blocks.pictures import Raster

RED, BLUE, NOT_A_NUMBER = (209, 52, 38), (46, 109, 209), (142, 68, 173)
LEAST_ALPHA = 24
"""The least shade of a number that is not zero: it stays visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RasterView:
    """What the template lays out; `source` is a data URL."""

    title: str
    unit: str
    rows: str
    columns: str
    note: str
    source: str
    wide: int
    high: int
    negative: bool
    broken: bool
    greatest: str
    description: str


def raster_view(raster: Raster) -> RasterView | None:
    """Prepare `raster`; None for an empty matrix."""
    if not raster.values or not raster.values[0]:
        return None
    numbers = [value for row in raster.values for value in row]
    greatest = max((abs(value) for value in numbers if math.isfinite(value)), default=0.0)
    png = _png(raster.values, greatest)
    return RasterView(
        title=raster.title,
        unit=raster.unit,
        rows=raster.rows,
        columns=raster.columns,
        note=raster.note,
        source=f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}",
        wide=len(raster.values[0]),
        high=len(raster.values),
        negative=any(value < 0 for value in numbers),
        broken=not all(map(math.isfinite, numbers)),
        greatest=number_text(greatest, 3),
        description=f"{raster.title}: {len(raster.values)} by {len(raster.values[0])} numbers, the greatest "
        f"{number_text(greatest, 3)}",
    )


def _png(values: Sequence[Sequence[float]], greatest: float) -> bytes:
    """Return the matrix as an 8-bit RGBA PNG (ISO/IEC 15948)."""
    lines = b"".join(b"\x00" + b"".join(_pixel(value, greatest) for value in row) for row in values)
    header = struct.pack(">IIBBBBB", len(values[0]), len(values), 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _pixel(value: float, greatest: float) -> bytes:
    if not math.isfinite(value):
        return bytes((*NOT_A_NUMBER, 255))
    if value == 0 or greatest == 0:
        return b"\x00\x00\x00\x00"
    # The square root keeps small numbers visible next to large ones.
    alpha = LEAST_ALPHA + round((255 - LEAST_ALPHA) * math.sqrt(abs(value) / greatest))
    return bytes((*(RED if value > 0 else BLUE), alpha))
