"""The machine as the run found it, and how the run was made."""

from __future__ import annotations

from jumar.pages.tuning.run import TuningRun
from jumar.report.page import Block, Cell, Column, KeyValues, Section, Table, Text
from jumar.tune.preconditions import GIB, Conditions


def machine(run: TuningRun) -> Section:
    """Return the section, which is always there."""
    how = "Estimated for" if run.is_estimate else "Measured on"
    facts: list[tuple[str, Cell]] = [(how, run.machine), *run.facts, ("Took", f"{run.wall_s:.0f} s")]
    facts += [(f"Left out: {engine}", why) for graph in run.graphs[:1] for engine, why in graph.left_out.items()]
    blocks: list[Block] = [KeyValues(items=facts)]
    if run.conditions is not None:
        blocks.append(KeyValues(title="The machine when the run began", items=_state(run.conditions)))
    if run.notes:
        blocks.append(Text(text="\n\n".join(run.notes)))
    return Section(title="How it was made", blocks=blocks)


def _state(conditions: Conditions) -> list[tuple[str, Cell]]:
    around = conditions.surroundings
    free = ", ".join(f"{size / GIB:.1f} GiB in {folder}" for folder, size in around.free_bytes.items())
    neighbours = ", ".join(f"{one.name} ({one.share:.1f} cores)" for one in around.neighbours)
    return [
        ("Cores", around.num_cores),
        ("Load average of the last minute", around.load_average),
        ("Other programs that computed", neighbours or "none"),
        ("Memory available", _gib(around.available_bytes)),
        ("Memory", _gib(around.memory_bytes)),
        ("Disk free", free or "unknown"),
        ("Watched by", ", ".join(around.profilers) or "nothing"),
        ("Candidates compiled at once", f"{conditions.lanes.count} ({conditions.lanes.bound})"),
    ]


def _gib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / GIB:.1f} GiB"


def not_tuned(run: TuningRun) -> Section | None:
    """Return what was left out and why; None when nothing was."""
    columns = [
        Column(title="Operator", code=True), Column(title="Calls", number=True),
        Column(title="Host time", unit="us", number=True), Column(title="Why"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [[one.operator, one.num_calls, one.recorded_us, one.reason] for one in run.not_tuned]
    return Section(title="Not tuned", blocks=[Table(columns=columns, rows=rows)], collapsed=True) if rows else None
