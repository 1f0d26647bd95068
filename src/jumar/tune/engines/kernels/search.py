"""How each product is fastest, measured in place: whatever is chosen, the result is the same to the bit.

Tried one after the other: the width of panels, the number of pixels whose inputs stay in the cache, and the number of
terms of a sum that are added before the next pixels are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from jumar.tune.engines.kernels.fields import CODES, PLACE
from jumar.tune.engines.kernels.library import Bound, Library
from jumar.tune.engines.kernels.program import Program
from jumar.tune.engines.kernels.weights import packed

WIDTHS = (2, 3, 4, 1)
PARTS = (512, 256)
CHUNKS = (4, 16, 64)
"""Divisors of the chunk that `convolutions.py` begins with."""
BUDGET_NS = 80_000_000
"""CPU time that the search may take for a product, about."""
MIN_GAIN = 0.97
"""A later choice must take less than this part of the time: less is noise."""
_NAMES = ("PRODUCT", "FUSED", "WINOGRAD")
_PRODUCTS = {CODES.index(name): name for name in _NAMES}
_SHAPE = ("code", "images", "groups", "blocks", "in_blocks", "out_h", "out_w", "depth", "rows", "row", "planes", "kind")


def search(program: Program, library: Library, matrices: Mapping[int, Any]) -> None:
    """Choose for every product, and pack its weights; products of one shape are measured once."""
    memory = torch.zeros(program.arena_size + 32, dtype=torch.float32)
    arena = -(-memory.data_ptr() // 64) * 64
    bound = Bound(library, program.operations, program.weights, program.tables, arena)
    known: dict[tuple[int, ...], dict[str, int]] = {}
    for number, row in enumerate(program.operations):
        if int(row[PLACE["code"]]) not in _PRODUCTS:
            continue
        one = _Product(bound, program, number, matrices[int(row[PLACE["weight"]])], library.lanes)
        shape = (*(int(row[PLACE[name]]) for name in _SHAPE), int(row[PLACE["other"]] >= 0))
        if shape not in known:
            known[shape] = one.fastest()
        one.set(known[shape])


class _Product:
    def __init__(self, bound: Bound, program: Program, number: int, entry: tuple[Any, int], lanes: int) -> None:
        self._bound, self._program, self._number, self._lanes = bound, program, number, lanes
        self._matrix, self._blocks = entry
        self._packed = 0

    def fastest(self) -> dict[str, int]:
        """Return the fields that it is fastest with."""
        best = {name: self._bound.field(self._number, name) for name in ("nr", "chunk", "part")}
        whole, time = best["chunk"], 0
        best, time = self._better(best, time, [best | {"nr": width} for width in self._widths()])
        if self._bound.field(self._number, "code") == CODES.index("PRODUCT"):
            chunks = [max(14, best["chunk"] // divisor) for divisor in CHUNKS]
            best, time = self._better(best, time, [best | {"chunk": chunk} for chunk in dict.fromkeys(chunks)])
        depth = self._bound.field(self._number, "depth")
        parts = [part for part in PARTS if depth >= 2 * part]
        if parts and self._bound.field(self._number, "code") != CODES.index("WINOGRAD"):
            more = [best | {"part": part, "chunk": whole * depth // part} for part in parts]
            best, _ = self._better(best, time, [*more, *(best | {"part": part} for part in parts)])
        return best

    def set(self, fields: Mapping[str, int]) -> None:
        """Give it these fields, and pack its weights to its width."""
        for name, value in fields.items():
            self._bound.set_field(self._number, name, value)
        if self._packed != fields["nr"]:
            self._packed = fields["nr"]
            place = self._bound.field(self._number, "weight")
            values = np.concatenate([packed(group, self._packed, self._lanes) for group in self._matrix])
            self._program.weights[place : place + values.size] = values

    def _widths(self) -> Iterable[int]:
        planes = self._bound.field(self._number, "planes")
        for width in WIDTHS:
            if width <= max(self._blocks, 1) and not (width > 3 and (planes or self._lanes < 16)):
                yield width

    def _better(self, best: dict[str, int], time: int, choices: Iterable[dict[str, int]]) -> tuple[dict[str, int], int]:
        for choice in choices:
            taken = self._time(choice)
            if not time or taken < MIN_GAIN * time:
                best, time = choice, taken
        return best, time

    def _time(self, fields: Mapping[str, int]) -> int:
        self.set(fields)
        first = self._bound.time_ns(self._number, 2)
        repeats = int(np.clip(BUDGET_NS // 10 // max(first, 1), 3, 30))
        return min(first, self._bound.time_ns(self._number, repeats))
