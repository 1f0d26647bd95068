"""The rows of a recording in pages: sorted and filtered on the server, the address says how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

from jumar.view.bench import Bench
from jumar.view.data.rows import PAGE_ROWS, Asked, Sort
from jumar.view.pages import recording
from jumar.view.pages.answers import Answer, Query
from jumar.view.pages.recording import damage
from jumar.view.store.items import Item

_HEADINGS: Sequence[tuple[str, str, bool]] = (
    ("step", "", True), ("rank", "", True), ("kind", "kind", False), ("phase", "phase", False),
    ("module", "module_path", False), ("operator", "name", False), ("source", "source", False),
    ("host time, us", "duration_us", True),
)  # fmt: skip
"""Heading, column that it sorts by, whether its cells are numbers."""
PATIENCE_S = 2.0
"""How long a page waits for rows that are being read, before it says how far they are."""
_SORTS = ("kind", "phase", "module_path", "name", "source", "duration_us")
_KINDS = ("op", "module", "loss", "optimizer", "parameter")
_PHASES = ("forward", "backward", "optimizer")


def rows(bench: Bench, item: Item, query: Query) -> Answer:
    """Return a page of the rows, or how far they are read."""
    table = bench.rows(item)
    asked = _asked(query)
    table.wait(recording.PATIENCE_S)
    found = table.page(asked)
    if found is None and table.wait(PATIENCE_S):
        found = table.page(asked)
    given = _given(asked)
    again = f"/item/{item.id}/rows?{urlencode(given | {'first': asked.first})}"
    if found is None:
        job = Reading(f"Rows of {item.place}", f"/item/{item.id}/reading", again, table.done, len(table.files))
        return Answer(template="job.html", context={"job": job})
    headings = [(title, name, is_number, *_sorting(asked, given, name)) for title, name, is_number in _HEADINGS]
    on = asked.first + PAGE_ROWS
    lines = [
        (f"/item/{item.id}/row?{urlencode({'step': row.step, 'rank': row.rank, 'seq': row.seq})}", row)
        for row in found.rows
    ]
    back = f"?{urlencode(given | {'first': max(0, asked.first - PAGE_ROWS)})}" if asked.first else ""
    has_more = found.count is None or found.count > on
    context = {
        "item": item, "asked": asked, "lines": lines, "headings": headings, "steps": table.steps, "ranks": table.ranks,
        "kinds": _KINDS, "phases": _PHASES, "damage": damage(table), "first": asked.first, "count": found.count,
        "back": back, "on": f"?{urlencode(given | {'first': on})}" if has_more else "",
        "action": f"/item/{item.id}/rows",
    }  # fmt: skip
    return Answer(template="rows.html", context=context)


def reading(bench: Bench, item: Item, _: Query) -> Answer:
    """Return how many files are read, as JSON."""
    table = bench.rows(item)
    state = "done" if table.wait(0) else "running"
    return Answer(json={"state": state, "done": table.done, "total": len(table.files)})


@dataclass(frozen=True, slots=True)
class Reading:
    """What the page of a job needs to know of a table that is read."""

    title: str
    told: str
    again: str
    done: int
    total: int
    state: str = "running"


def _asked(query: Query) -> Asked:
    return Asked(
        step=query.number("step"),
        rank=query.number("rank"),
        kind=query.chosen("kind", _KINDS),
        phase=query.chosen("phase", _PHASES),
        words=query.text("q"),
        sort=cast(Sort, query.chosen("sort", _SORTS)),
        descending=query.text("down") == "1",
        first=query.number("first") or 0,
    )


def _given(asked: Asked) -> dict[str, Any]:
    """Return the part of an address that says what was asked, the page left out."""
    found = {
        "step": asked.step, "rank": asked.rank, "kind": asked.kind, "phase": asked.phase, "q": asked.words,
        "sort": asked.sort, "down": "1" if asked.descending else "",
    }  # fmt: skip
    return {name: value for name, value in found.items() if value not in ("", None)}


def _sorting(asked: Asked, given: dict[str, Any], name: str) -> tuple[str, str]:
    """Return the address that sorts by a column, the other way round where it is sorted, and the present direction."""
    if not name:
        return "", ""
    is_now = asked.sort == name
    # The longest time is what one looks for, and names begin with A.
    down = not asked.descending if is_now else name == "duration_us"
    others = {key: value for key, value in given.items() if key not in ("sort", "down")}
    address = f"?{urlencode(others | {'sort': name} | ({'down': '1'} if down else {}))}"
    return address, ("descending" if asked.descending else "ascending") if is_now else ""
