"""What the ranks say together -> pictures: who comes late to which collective, how long each rank works."""

from __future__ import annotations

import numpy as np

from jumar.advise.ranks.arrivals import Arrivals, Numbers
from jumar.advise.ranks.links import distinct
from jumar.advise.ranks.ranks import Ranks
from jumar.base.text.digits import Cell
from jumar.show.blocks.page import Block, Column, Section, Table
from jumar.show.blocks.pictures import Raster

MAX_CELLS = 512
"""Pixels along each axis; of more ranks or calls, one pixel stands for the greatest of its neighbours."""
MAX_LINKS = 100


def ranks_section(ranks: Ranks) -> Section | None:
    """Return the heat maps of several ranks and their links; None for one rank."""
    if len(ranks.decompositions) < 2:
        return None
    blocks: list[Block] = []
    if ranks.arrivals is not None:
        blocks.append(_lateness(ranks.arrivals))
    if len(ranks.steps) > 1 and len(ranks.compared) > 1:
        blocks.append(_work(ranks))
    if ranks.links:
        blocks.append(_links(ranks))
    return Section(title="Ranks together", blocks=blocks) if blocks else None


def _lateness(matched: Arrivals) -> Raster:
    order = np.argsort(matched.ranks)
    late = np.nan_to_num(matched.late_ms[order], nan=0.0)
    values, wide, high = _reduced(late)
    share = matched.num_matched / max(matched.num_calls, 1)
    return Raster(
        title="How late each rank comes to each collective", unit="ms after the first rank", values=values,
        rows=f"ranks {_span(sorted(matched.ranks), high)}",
        columns=f"{len(matched.operations):,} collectives in their order{_each(wide)}",
        note=f"Matched: {matched.num_matched:,} of {matched.num_calls:,} calls ({share:.0%}). Clocks were aligned by "
        f"the ends of the calls, to {matched.uncertain_ms:.3g} ms in the median.",
    )  # fmt: skip


def _work(ranks: Ranks) -> Raster:
    order = np.argsort(ranks.numbers)
    own = ranks.own_ms[order]
    values, wide, high = _reduced(own - own.min(axis=0))
    return Raster(
        title="How long each rank works in each step", unit="ms more than the quickest rank", values=values,
        rows=f"ranks {_span(sorted(ranks.numbers), high)}",
        columns=f"steps {ranks.steps[0]} to {ranks.steps[-1]}{_each(wide)}",
        note="Waiting for communication and for the device is left out.",
    )  # fmt: skip


def _links(ranks: Ranks) -> Table:
    links = sorted(distinct(ranks.links), key=lambda link: link.bandwidth)[:MAX_LINKS]
    columns = [
        Column(title="link", code=True), Column(title="transport"),
        Column(title="bandwidth", unit="GB/s", number=True, bar=True), Column(title="moved", unit="MB", number=True),
        Column(title="time", unit="ms", number=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [link.pair, link.transport, round(link.bandwidth, 3), round(link.size_mb, 3), round(link.time_ms, 3)]
        for link in links
    ]
    return Table(columns=columns, rows=rows, title="Links, the slowest first")


def _reduced(values: Numbers) -> tuple[list[list[float]], int, int]:
    """Return at most `MAX_CELLS` rows and columns, the greatest of neighbours, and how many one stands for."""
    high, wide = (-(-size // MAX_CELLS) for size in values.shape)
    padded = np.pad(values, [(0, -size % by) for size, by in zip(values.shape, (high, wide), strict=True)])
    blocks = padded.reshape(padded.shape[0] // high, high, padded.shape[1] // wide, wide)
    return blocks.max(axis=(1, 3)).tolist(), wide, high


def _span(numbers: list[int], each: int) -> str:
    return f"{numbers[0]} to {numbers[-1]}{_each(each)}"


def _each(number: int) -> str:
    return f", {number} a cell" if number > 1 else ""
