"""How each product is fastest, measured in place: whatever is chosen, the result is the same to the bit.

Tried one after the other: the width of panels, then how the work is cut: the number of terms of a sum that are added
before the next pixels are, and the number of pixels whose inputs stay in the cache. The choices of one question are
measured in turns, so that a disturbance meets all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jumar.tune.engines.kernels.library import Bound, Library
from jumar.tune.engines.kernels.lowering.weights import packed
from jumar.tune.engines.kernels.program import CODES, PLACE, ROOM, Program, aligned

WIDTHS = (2, 3, 4, 1)
PARTS = (128, 256, 512)
"""Of 128 terms a panel of weights stays in a first-level cache of 32 KiB."""
CHUNKS = (1, 4, 16)
"""Divisors of the chunk that the lowering begins with."""
BANDS = (1, 2, 4)
"""Divisors of the rows a band that the lowering begins with, where a depthwise convolution follows."""
TURNS = 3
BUDGET_NS = 80_000_000
"""CPU time that the search may take for a product, about."""
MIN_GAIN = 0.98
"""Another choice than the first must take less than this part of the time: less is noise."""
_NAMES = ("PRODUCT", "FUSED", "WINOGRAD")
_PRODUCTS = {CODES.index(name): name for name in _NAMES}
_SHAPE = ("code", "images", "groups", "blocks", "in_blocks", "out_h", "out_w", "depth", "rows", "row", "planes", "kind",
          "band", "plane")  # fmt: skip

Fields = dict[str, int]


def search(program: Program, library: Library, matrices: Mapping[int, Any], num_threads: int, panel: int = 0) -> None:
    """Choose for every product, and pack its weights; products of one shape are measured once.

    What counts is the longest share among `num_threads`. `panel` is the width that all panels have that can, in
    vectors; 0: whatever is fastest.
    """
    arena = aligned(program.arena_size + ROOM, np.float32)
    arena[:] = 0
    bound = Bound(library, program.operations, program.weights, program.tables, arena.ctypes.data)
    known: dict[tuple[int, ...], Fields] = {}
    for number, row in enumerate(program.operations):
        if int(row[PLACE["code"]]) not in _PRODUCTS:
            continue
        entry = matrices[int(row[PLACE["weight"]])]
        one = _Product(bound, program, number, entry, lanes=library.lanes, panel=panel, num_threads=num_threads)
        shape = (*(int(row[PLACE[name]]) for name in _SHAPE), int(row[PLACE["other"]] >= 0))
        if shape not in known:
            known[shape] = one.fastest()
        one.set(known[shape])


class _Product:
    def __init__(
        self, bound: Bound, program: Program, number: int, entry: tuple[Any, int], *, lanes: int, panel: int,
        num_threads: int,
    ) -> None:  # fmt: skip
        self._bound, self._program, self._number = bound, program, number
        self._lanes, self._panel, self._num_threads = lanes, panel, num_threads
        self._matrix, self._blocks = entry
        self._packed = 0

    def fastest(self) -> Fields:
        """Return the fields that it is fastest with."""
        given = {name: self._bound.field(self._number, name) for name in ("nr", "chunk", "part", "band")}
        # Where sums are long, short parts are nearly always faster: panels of any width stay in the cache.
        first = next(iter(self._cuts(given)), given)
        wide = self._best([first | {"nr": width} for width in self._widths()])
        return self._best([wide, *(given | cut | {"nr": wide["nr"]} for cut in self._cuts(given))])

    def set(self, fields: Mapping[str, int]) -> None:
        """Give it these fields, and pack its weights to its width."""
        for name, value in fields.items():
            self._bound.set_field(self._number, name, value)
        if self._packed != fields["nr"]:
            self._packed = fields["nr"]
            place = self._bound.field(self._number, "weight")
            values = np.concatenate([packed(group, self._packed, self._lanes) for group in self._matrix])
            self._program.weights[place : place + values.size] = values

    def _widths(self) -> list[int]:
        planes = self._bound.field(self._number, "planes")
        most = min(max(self._blocks, 1), 3 if planes or self._lanes < 16 else 4)
        return [min(self._panel, most)] if self._panel else [width for width in WIDTHS if width <= most]

    def _cuts(self, fields: Fields) -> Iterable[Fields]:
        code, depth = self._bound.field(self._number, "code"), self._bound.field(self._number, "depth")
        if code == CODES.index("WINOGRAD"):
            return
        for part in [*(part for part in PARTS if depth >= 2 * part), fields["part"]]:
            # What stays in the cache of a part is less of each pixel, so of more pixels.
            whole = fields["chunk"] * max(1, depth // part)
            if code == CODES.index("FUSED"):
                for band in dict.fromkeys(max(1, fields["band"] // divisor) for divisor in BANDS):
                    yield fields | {"part": part, "band": band}
                continue
            for chunk in dict.fromkeys(max(14, whole // divisor) for divisor in CHUNKS):
                yield fields | {"part": part, "chunk": chunk}

    def _best(self, choices: list[Fields]) -> Fields:
        """Return the first choice, or one that is clearly faster."""
        if len(choices) < 2:
            return choices[0]
        times = [self._time(choice, 1) for choice in choices]
        fair = [place for place, time in enumerate(times) if time < 1.5 * min(times) or not place]
        repeats = int(np.clip(BUDGET_NS // (3 * TURNS * sum(times[place] for place in fair)), 1, 10))
        for turn in range(TURNS):
            if turn and turn * repeats * sum(times[place] for place in fair) > BUDGET_NS:
                break
            for place in fair:
                times[place] = min(times[place], self._time(choices[place], repeats))
        fastest = min(fair, key=times.__getitem__)
        return choices[fastest if times[fastest] < MIN_GAIN * times[0] else 0]

    def _time(self, fields: Mapping[str, int], repeats: int) -> int:
        self.set(fields)
        return self._bound.time_ns(self._number, self._num_threads, repeats)
