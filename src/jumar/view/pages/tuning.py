"""Tuning: candidates with their intervals and the front of speed and error, also while the tuning runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jumar.base.text.digits import Cell, number_text
from jumar.recording.documents import mapping, read
from jumar.show.blocks.page import Block, Column, KeyValues, LineChart, Section, Series, Table
from jumar.show.html.render import block_views, section_views
from jumar.view.bench import Bench
from jumar.view.data.candidates import Candidate, of_document, of_journal, pareto
from jumar.view.data.journal import parts_of, read_journal
from jumar.view.pages.answers import Answer, Query
from jumar.view.pages.documents import contents
from jumar.view.store.items import Item
from jumar.view.store.kinds.documents import load

MOST_SHOWN = 400
MOST_FRONTS = 6
"""Fronts in the chart, those with the most candidates on them."""
_ORDERS = ("time", "speed")


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval as the template draws it, in percent of the width of the column."""

    candidate: Candidate
    left: str = ""
    width: str = ""
    middle: str = ""
    speed: str = ""
    interval: str = ""
    is_on_front: bool = False


def tuning(bench: Bench, item: Item, query: Query) -> Answer:
    """Return the page of a tuning."""
    context = _context(item, query)
    near = item.path.parent.parent
    every = [one for one in bench.catalogue.look().items if one.kind in ("tuning", "bank") and one.id != item.id]
    context["others"] = [one for one in every if one.path.parent.is_relative_to(near)][:20]
    return Answer(template="tuning.html", context=context)


def live(item: Item, query: Query) -> Answer:
    """Return the part of the page that changes while the tuning runs."""
    return Answer(template="tuned.html", context=_context(item, query), seen=f"{item.stamp}")


def _context(item: Item, query: Query) -> dict[str, Any]:
    order = query.chosen("order", _ORDERS) or "time"
    candidates, sections = _read(item)
    fronts = {of: pareto([one for one in candidates if one.of == of]) for of in {one.of: None for one in candidates}}
    front = [one for those in fronts.values() for one in those]
    shown = sorted(candidates, key=lambda one: -(one.ratio or 0.0)) if order == "speed" else candidates[::-1]
    chart, drawn = front_chart(fronts), bars(shown[:MOST_SHOWN], front)
    return {
        "item": item, "bars": drawn, "num_candidates": len(candidates), "order": order,
        "front": block_views([chart], 500) if chart is not None else [], "sections": section_views(sections),
        "part": f"/item/{item.id}/live?order={order}", "seen": f"{item.stamp}",
    }  # fmt: skip


def _read(item: Item) -> tuple[list[Candidate], list[Section]]:
    if item.form == "journal":
        journal = read_journal(item.path)
        note = "" if journal.is_whole else "The last line is not whole: it is being written, or the run was killed."
        facts: list[tuple[str, Cell]] = [("source", journal.name), *([("note", note)] if note else [])]
        return of_journal(journal), [Section(title="The job", blocks=[KeyValues(items=facts)])]
    if item.path.name.startswith("aoe_result_"):
        return [], _vendors(item)
    data = load(item.path)
    rest = {name: value for name, value in data.items() if name not in ("tasks", "graphs", "precisions", "history")}
    return of_document(data), contents(rest)


def _vendors(item: Item) -> list[Section]:
    """Return the parts of the vendor's result file."""
    found = read(item.path)
    parts = parts_of(mapping(found) if isinstance(found, dict) else {"": found})
    sections = []
    for name in ("OPAT", "SGAT"):
        if name in parts:
            sections.append(
                Section(title={"OPAT": "Operators", "SGAT": "Subgraphs"}[name], blocks=_of_part(parts[name]))
            )
    return [*sections, Section(title="The run", blocks=[KeyValues(items=list(parts["basic"].items()))])]


def _of_part(part: Mapping[str, Any]) -> list[Block]:
    facts = [(name, value) for name, value in part.items() if not isinstance(value, list | dict)]
    summary = part.get("repo_summary", {})
    blocks: list[Block] = [KeyValues(items=[*facts, *(summary.items() if isinstance(summary, dict) else ())])]
    rows: list[list[Cell]] = []
    for one in part.get("repo_modified_operators", []):
        for kind, told in one.get("tune_performance", {}).items():
            rows.append([one.get("op_name"), one.get("op_type"), kind, *map(told.get, _TIMES)])
    for graphs in part.get("repo_modified_subgraphs", {}).values():
        rows += [[one.get("repo_key"), "subgraph", "", *map(one.get, _GRAPH_TIMES)] for one in graphs]
    columns = [Column(title="name", code=True), Column(title="type", code=True), Column(title="kind")]
    columns += [Column(title="before", number=True), Column(title="after", number=True), Column(title="improvement")]
    return [*blocks, Table(title="What became faster", columns=columns, rows=rows)] if rows else blocks


_TIMES = ("performance_before_tune(us)", "performance_after_tune(us)", "performance_improvement")
_GRAPH_TIMES = ("performance_before_tune(ms)", "performance_after_tune(ms)", "performance_improvement")


def front_chart(fronts: Mapping[str, Sequence[Candidate]]) -> LineChart | None:
    """Return the front of speed and error of each thing that is tuned; None where none has two candidates on it."""
    worth = sorted(((of, front) for of, front in fronts.items() if len(front) > 1), key=lambda pair: -len(pair[1]))
    series = [
        Series(name=of, x=[one.error or 0.0 for one in front], y=[one.ratio for one in front])
        for of, front in worth[:MOST_FRONTS]
    ]
    if not series:
        return None
    return LineChart(title="Speed against error", x_label="error", y_label="times as fast", series=series)


def bars(candidates: Sequence[Candidate], front: Sequence[Candidate] = ()) -> list[Bar]:
    """Return the candidates with their intervals on one scale, which holds 1 (as fast as before)."""
    ends = [math.log(end) for one in candidates if one.is_measured for end in (one.low, one.high) if end and end > 0]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    span = (high - low) or 1.0

    def at(ratio: float) -> float:
        return (math.log(max(ratio, 1e-12)) - low) / span * 100

    found = []
    for one in candidates:
        is_on_front = any(one is other for other in front)
        if not one.is_measured or one.low is None or one.high is None or one.ratio is None:
            speed = "" if one.ratio is None else number_text(one.ratio, 3)
            found.append(Bar(one, speed=speed, is_on_front=is_on_front))
            continue
        left, right = min(max(at(one.low), 0.0), 100.0), min(max(at(one.high), 0.0), 100.0)
        found.append(
            Bar(
                one, left=f"{left:.1f}", width=f"{max(right - left, 0.5):.1f}", middle=f"{at(one.ratio):.1f}",
                speed=number_text(one.ratio, 3), is_on_front=is_on_front,
                interval=f"{(one.low - 1) * 100:+.1f} to {(one.high - 1) * 100:+.1f} %",
            )
        )  # fmt: skip
    return found
