"""Curves of several runs over each other: loss, norms of gradients and parameters, of one parameter too."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlencode

from jumar.show.blocks.page import Block, LineChart, Series, Text
from jumar.show.html.render import block_views
from jumar.view.bench import Bench
from jumar.view.data.curves import WHAT, Curve, What, curve, parameter_names
from jumar.view.pages.answers import Answer, Query
from jumar.view.pages.comparison import progress
from jumar.view.store.items import Item
from jumar.view.work import OnProgress

MOST_RUNS = 12
MOST_NAMES = 3000


def curves(bench: Bench, query: Query) -> Answer:
    """Return the page; without runs it offers those that there are."""
    every = [item for item in bench.catalogue.look().items if item.kind == "recording"]
    asked = query.texts("run")[:MOST_RUNS]
    runs = [item for name in asked for item in every if item.id == name]
    what = cast(What, query.chosen("what", list(WHAT)) or "loss")
    name = query.text("name") if what != "loss" else ""
    rank = query.number("rank") or 0
    is_log = query.text("log") == "1"
    context: dict[str, Any] = {
        "every": every, "runs": runs, "views": [], "what": what, "names": [], "name": name, "is_log": is_log,
        "choices": WHAT, "rank": rank, "ids": {item.id for item in runs},
    }  # fmt: skip
    if not runs:
        return Answer(template="curves.html", context=context)
    given = [("run", item.id) for item in runs] + [("what", what), ("name", name), ("rank", str(rank))]
    again = f"/curves?{urlencode(given + ([('log', '1')] if is_log else []))}"
    identity = ("curves", what, name, rank, [(item.id, item.stamp) for item in runs])

    def run(on_progress: OnProgress) -> tuple[list[Curve], list[str]]:
        found = []
        for number, item in enumerate(runs):
            on_progress(number, len(runs))
            found.append(curve(item.path, bench.rows(item), what, name, rank))
        names = parameter_names(runs[0].path, bench.rows(runs[0]), rank) if what != "loss" else []
        return found, names

    job = bench.jobs.start(identity, "Curves", again, run)
    job.ended.wait(0.25)  # short runs are ready by then, and nobody sees a page of progress flash by
    if job.state != "done":
        return progress(job)
    found, names = job.result
    context["views"] = block_views(_blocks(runs, found, what, name, is_log=is_log))
    context["names"] = names[:MOST_NAMES]
    return Answer(template="curves.html", context=context)


def _blocks(runs: list[Item], found: list[Curve], what: What, name: str, *, is_log: bool) -> list[Block]:
    series = [
        Series(name=item.place, x=one.steps, y=one.values) for item, one in zip(runs, found, strict=True) if one.steps
    ]
    title = f"{WHAT[what]}{f' of {name}' if name else ''} by step"
    y_label = "loss" if what == "loss" else "L2 norm"
    blocks: list[Block] = [LineChart(title=title, x_label="step", y_label=y_label, series=series, log_y=is_log)]
    notes = [f"{item.place}: {one.note}" for item, one in zip(runs, found, strict=True) if one.note]
    return [*blocks, *([Text(text="\n\n".join(notes))] if notes else [])]
