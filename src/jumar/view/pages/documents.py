"""Results that one file holds whole: reports of the doctor, overflow, advice, maps, ports, and saved pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jumar.base.findings import Severity
from jumar.base.text.digits import Cell
from jumar.port.layout import Layout
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import (
    Action,
    Block,
    Column,
    KeyValues,
    Listing,
    Page,
    Section,
    Table,
    Text,
    Verdict,
)
from jumar.show.html.render import section_views
from jumar.view.bench import Bench
from jumar.view.data.rebuild import page_from
from jumar.view.pages.answers import Answer, message
from jumar.view.store.items import Item
from jumar.view.store.kinds.documents import findings_in, load

MOST_ROWS = 2000
MOST_ACTIONS = 3
DEEPEST, MOST_NESTED = 4, 40
"""Levels of a nested value that a cell shows, and values of each."""
_HEAD = frozenset({"schema_version", "jumar_version", "findings", "headline", "first"})


def page_answer(item: Item, page: Page, links: Sequence[tuple[str, str]] = (), scripts: Sequence[str] = ()) -> Answer:
    """Return a page of `jumar.show` in the workbench."""
    context = {
        "item": item, "page": page, "sections": section_views(page.sections), "links": links, "scripts": scripts,
    }  # fmt: skip
    return Answer(template="page_of.html", context=context)


def document(item: Item) -> Answer:
    """Return the page of a saved document: verdict, what to do, findings, then all that it holds. Raises InputError."""
    data = load(item.path)
    findings = sorted(findings_in(data), key=lambda one: -one.severity)
    state = item.about.state if item.about.state in ("fine", "attention", "failed") else "attention"
    serious = [one for one in findings if one.severity >= Severity.WARNING and one.action]
    sections = [Section(title="Findings", blocks=[finding_list(findings, empty="Nothing found.")])]
    sections += contents(data)
    page = Page(
        title=item.about.title,
        verdict=Verdict(status=state, headline=item.about.headline or "It has no verdict."),
        actions=[Action(title=one.action, detail=one.message) for one in serious[:MOST_ACTIONS]],
        sections=sections,
    )
    return page_answer(item, page)


def contents(data: Mapping[str, Any]) -> list[Section]:
    """Return the parts of a document as tables and pairs, each under its name."""
    facts: list[tuple[str, Cell]] = []
    sections = []
    for name, value in data.items():
        if name in _HEAD:
            continue
        if blocks := _blocks(value):
            sections.append(Section(title=_words(name), blocks=blocks, collapsed=True))
        elif not isinstance(value, list | dict):
            facts.append((_words(name), value))
    if facts:
        sections.insert(0, Section(title="Facts", blocks=[KeyValues(items=facts)]))
    return sections


def _words(name: str) -> str:
    text = name.replace("_", " ")
    return text[:1].upper() + text[1:]


def _blocks(value: Any) -> list[Block]:
    if isinstance(value, dict) and value:
        return [KeyValues(items=[(_words(str(name)), _cell(inner)) for name, inner in value.items()])]
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return [_table(value)]
    if isinstance(value, list) and value:
        return [Text(text="\n\n".join(str(_cell(one)) for one in value[:MOST_ROWS]))]
    return []


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for row in rows[:MOST_ROWS] for name in row))
    columns = [
        Column(title=_words(name), number=all(_is_number(row.get(name)) for row in rows[:MOST_ROWS])) for name in names
    ]
    cells = [[_cell(row.get(name)) for name in names] for row in rows[:MOST_ROWS]]
    cut = f"The first {MOST_ROWS:,} of {len(rows):,}" if len(rows) > MOST_ROWS else ""
    return Table(title=cut, columns=columns, rows=cells)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: Any, levels: int = DEEPEST) -> Cell:
    """Return a value as the text of a cell; what is nested deeper than `levels` is left out."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if not levels:
        return "…"
    if isinstance(value, list):
        return ", ".join(str(_cell(one, levels - 1)) for one in value[:MOST_NESTED])
    pairs = list(value.items())[:MOST_NESTED]
    return ", ".join(f"{name}: {_cell(inner, levels - 1)}" for name, inner in pairs)


def port(bench: Bench, item: Item) -> Answer:
    """Return the page of a port, with its two recordings. Raises InputError."""
    layout = Layout(item.path)
    if not layout.findings.is_file():
        return message(item.place, item.about.headline, state="running")
    page = page_from(load(layout.findings)["page"])
    recordings = [
        one for one in bench.catalogue.look().items if one.kind == "recording" and one.path.parent == item.path
    ]
    recordings.sort(key=lambda one: one.path.name != layout.reference.name)
    links = [(f"/item/{one.id}", f"Recording {one.path.name}") for one in recordings]
    if len(recordings) == 2:
        links.append((f"/compare?run={recordings[0].id}&run={recordings[1].id}", "Module tree"))
    return page_answer(item, page, links)


def text(item: Item) -> Answer:
    """Return a map of names as text."""
    body = item.path.read_text("utf-8", errors="replace")[: 1 << 20]
    page = Page(
        title=item.about.title, verdict=Verdict(status="fine", headline=item.about.headline), actions=(),
        sections=[Section(title="The map", blocks=[Listing(text=body)])],
    )  # fmt: skip
    return page_answer(item, page)


def html(item: Item) -> Answer:
    """Return a saved page in a frame of its own."""
    return Answer(template="framed.html", context={"item": item})


def html_file(item: Item) -> Answer:
    """Return the saved page itself, to be sent in a sandbox."""
    return Answer(raw=item.path.read_bytes())
