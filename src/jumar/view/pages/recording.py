"""A recording: how it was made and how it ended, its loss, and its operators by time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jumar.base.text.digits import Cell
from jumar.recording.documents import read_run_info
from jumar.show.blocks.page import Block, Column, KeyValues, LineChart, Listing, Section, Series, Table, Text
from jumar.show.html.render import block_views, section_views
from jumar.view.bench import Bench
from jumar.view.data.curves import curve
from jumar.view.data.rows import Asked, RowTable
from jumar.view.pages.answers import Answer
from jumar.view.store.items import Item
from jumar.view.store.kinds.folders import ends_of

PATIENCE_S = 0.1
"""How long a page waits for the checksums: those of a short recording are compared by then."""


def overview(bench: Bench, item: Item) -> Answer:
    """Return the page of a recording. Raises RecordingError where its first file cannot be read."""
    info = read_run_info(item.path)
    table = bench.rows(item)
    is_read = table.wait(PATIENCE_S)
    ends, damaged = ends_of(item.path)
    facts: list[tuple[str, Cell]] = [
        ("folder", item.place), ("created", info.created), ("device", info.device), ("SoC", info.soc),
        ("framework", info.framework), ("torch", info.torch_version), ("values", info.values),
        ("levels", ", ".join(info.levels)), ("steps", len(table.steps)), ("ranks", len(table.ranks)),
    ]  # fmt: skip
    facts += [
        (f"rank {rank} ended", f"{end.status}, {end.num_steps} steps in {end.wall_s:.1f} s")
        for rank, end in ends.items()
    ]
    sections = [
        _missing([*damaged, *damage(table), *(text for end in ends.values() for text in end.not_covered)]),
        *(
            Section(title=f"Rank {rank} raised", blocks=[Listing(text=end.error)])
            for rank, end in ends.items()
            if end.error
        ),
        Section(
            title="How it was made", blocks=[KeyValues(items=[(name, value) for name, value in facts if value != ""])]
        ),
        _settings(info.settings, info.environment),
    ]
    others = [one for one in bench.catalogue.look().items if one.kind == "recording" and one.id != item.id]
    context = {
        "item": item, "sections": section_views([one for one in sections if one is not None]), "others": others[:100],
        "num_files": len(table.files), "is_read": is_read,
    }  # fmt: skip
    return Answer(template="recording.html", context=context)


def damage(table: RowTable) -> list[str]:
    """Return a sentence for each step file that is left out."""
    return [f"{path.name} {why}. Its rows are left out." for path, why in sorted(dict(table.damaged).items())]


def _missing(sentences: Sequence[str]) -> Section | None:
    if not sentences:
        return None
    return Section(title="Missing or damaged", blocks=[Text(text="\n\n".join(sentences[:40]))])


def _settings(*groups: Any) -> Section | None:
    items = [
        (str(name), value if isinstance(value, bool | int | float | str) or value is None else str(value))
        for group in groups
        for name, value in group.items()
    ]
    return Section(title="Settings and environment", blocks=[KeyValues(items=items)], collapsed=True) if items else None


def charts(bench: Bench, item: Item) -> Answer:
    """Return the loss by step and the operators with the most host time, which take longer than the page."""
    table = bench.rows(item)
    blocks: list[Block] = []
    losses = [(rank, curve(item.path, table, "loss", rank=rank)) for rank in table.ranks[:6] or [0]]
    series = [
        Series(name=f"rank {rank}" if len(losses) > 1 else "loss", x=one.steps, y=one.values)
        for rank, one in losses
        if one.steps
    ]
    if series:
        blocks.append(LineChart(title="Loss by step", x_label="step", y_label="loss", series=series))
    totals = table.totals(Asked(kind="op"), "name", 100)
    if totals:
        columns = [
            Column(title="operator", code=True),
            Column(title="calls", number=True),
            Column(title="host time", unit="ms", number=True, bar=True),
        ]
        rows: list[list[Cell]] = [[name, calls, time / 1000] for name, calls, time in totals]
        blocks.append(Table(title="Operators by host time, all steps", columns=columns, rows=rows))
    return Answer(template="blocks_only.html", context={"views": block_views(blocks, 1000), "empty": "No rows yet."})
