"""`ROUTES`: which page answers which address. An address names a result by its id, never a path."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jumar.view.bench import Bench
from jumar.view.pages import bank, call, comparison, curves, documents, listing, profile, recording, rows, tuning
from jumar.view.pages.answers import Answer, Query, message, missing
from jumar.view.store.items import Item

Handler = Callable[[Bench, Mapping[str, str], Query], Answer]
_OfItem = Callable[[Bench, Item, Query], Answer]


def item_page(bench: Bench, item: Item, query: Query) -> Answer:
    """Return the page of a result, by the form in which it is kept, then by its kind."""
    if item.about.state == "failed" and item.about.headline.startswith("It "):  # it could not even be described
        return message(item.place, item.about.headline, links=[("/", "All results")])
    by_form: dict[str, _OfItem] = {
        "html": lambda _, one, __: documents.html(one),
        "journal": tuning.tuning,
        "text": lambda _, one, __: documents.text(one),
    }
    by_kind: dict[str, _OfItem] = {
        "recording": lambda bench, one, _: recording.overview(bench, one),
        "port": lambda bench, one, _: documents.port(bench, one),
        "profile": lambda bench, one, _: profile.profile(bench, one),
        "bank": bank.bank if item.form == "folder" else _document,
        "comparison": lambda bench, one, _: comparison.saved(bench, one),
        "tuning": tuning.tuning,
    }
    return (by_form.get(item.form) or by_kind.get(item.kind) or _document)(bench, item, query)


def _document(_: Bench, item: Item, __: Query) -> Answer:
    return documents.document(item)


def _of(page: _OfItem, *kinds: str) -> Handler:
    """Return a handler for a page of one result, of these kinds where any are given."""

    def answer(bench: Bench, path: Mapping[str, str], query: Query) -> Answer:
        item = bench.catalogue.find(path["item"])
        if item is None or (kinds and item.kind not in kinds):
            return missing()
        return page(bench, item, query)

    return answer


def _html_file(_: Bench, item: Item, __: Query) -> Answer:
    return documents.html_file(item) if item.form == "html" else missing()


def _compared_call(bench: Bench, path: Mapping[str, str], _: Query) -> Answer:
    index = path["index"]
    return comparison.call(bench, path["key"], int(index) if index.isdecimal() and len(index) < 10 else -1)


ROUTES: dict[str, Handler] = {
    "/": lambda bench, _, query: listing.listing(bench, query),
    "/results": lambda bench, _, query: listing.listed(bench, query),
    "/compare": lambda bench, _, query: comparison.compared(bench, query),
    "/compare/{key}/tree": lambda bench, path, query: comparison.tree(bench, path["key"], query),
    "/compare/{key}/call/{index}": _compared_call,
    "/curves": lambda bench, _, query: curves.curves(bench, query),
    "/job/{key}": lambda bench, path, _: comparison.told(bench, path["key"]),
    "/item/{item}": _of(item_page),
    "/item/{item}/file": _of(_html_file),
    "/item/{item}/charts": _of(lambda bench, item, _: recording.charts(bench, item), "recording"),
    "/item/{item}/rows": _of(rows.rows, "recording"),
    "/item/{item}/reading": _of(rows.reading, "recording"),
    "/item/{item}/row": _of(call.call, "recording"),
    "/item/{item}/advice": _of(lambda bench, item, _: profile.profile(bench, item), "recording", "profile"),
    "/item/{item}/live": _of(lambda _, item, query: tuning.live(item, query), "tuning"),
    "/item/{item}/entry": _of(lambda _, item, query: bank.entry(item, query), "bank"),
    "/item/{item}/why-miss": _of(bank.why_miss, "bank"),
}
"""Address to the page that answers it."""
