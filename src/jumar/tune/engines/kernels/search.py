"""Which width of panels each product is fastest with, measured in place: the result is the same to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from jumar.tune.engines.kernels.library import Bound, Library
from jumar.tune.engines.kernels.program import CODES, PLACE, Program
from jumar.tune.engines.kernels.weights import packed

WIDTHS = (2, 3, 4, 1)
BUDGET_NS = 60_000_000
"""CPU time a product's search may take, about."""
_PRODUCTS = tuple(CODES.index(code) for code in ("PRODUCT", "FUSED", "WINOGRAD"))


def search(program: Program, library: Library, matrices: Mapping[int, Any]) -> None:
    """Choose a width for every product, and pack its weights for it."""
    memory = torch.zeros(program.arena_size + 32, dtype=torch.float32)
    arena = -(-memory.data_ptr() // 64) * 64
    bound = Bound(library, program.operations, program.weights, program.tables, arena)
    done: dict[int, int] = {}
    for number, row in enumerate(program.operations):
        if row[PLACE["code"]] in _PRODUCTS:
            weight = int(row[PLACE["weight"]])
            if weight not in done:
                done[weight] = _fastest(bound, program, number, matrices[weight], library.lanes)
            row[PLACE["nr"]] = done[weight]


def _fastest(bound: Bound, program: Program, number: int, entry: tuple[Any, int], lanes: int) -> int:
    matrix, blocks = entry
    times = {}
    planes = bound.field(number, "planes")
    for width in WIDTHS:
        if width > max(blocks, 1) or (width > 3 and (planes or lanes < 16)):
            continue
        _pack(bound, program, number, matrix, width, lanes)
        first = bound.time_ns(number, 2)
        repeats = int(np.clip(BUDGET_NS // len(WIDTHS) // max(first, 1), 3, 30))
        times[width] = min(first, bound.time_ns(number, repeats))
    best = min(times, key=times.__getitem__)
    _pack(bound, program, number, matrix, best, lanes)
    return best


def _pack(bound: Bound, program: Program, number: int, matrix: Any, width: int, lanes: int) -> None:
    place = bound.field(number, "weight")
    values = np.concatenate([packed(group, width, lanes) for group in matrix])
    program.weights[place : place + values.size] = values
    bound.set_field(number, "nr", width)
