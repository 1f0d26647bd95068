"""The first page: all results by time, filtered by kind and words; it changes while it is open."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, cast
from urllib.parse import urlencode

from jumar.view.bench import Bench
from jumar.view.pages.answers import Answer, Query
from jumar.view.store.catalogue import search
from jumar.view.store.items import KINDS, Item, Kind

MOST_SHOWN = 300


def listing(bench: Bench, query: Query) -> Answer:
    """Return the page."""
    return Answer(template="listing.html", context=_context(bench, query))


def listed(bench: Bench, query: Query) -> Answer:
    """Return the list alone, for a page that is open."""
    context = _context(bench, query)
    return Answer(template="listed.html", context=context, seen=context["seen"])


def _context(bench: Bench, query: Query) -> dict[str, Any]:
    now = bench.catalogue.look()
    words, kind = query.text("q"), query.chosen("kind", list(KINDS))
    found = search(now.items, words, cast(Kind, kind) if kind else None)
    matching = search(now.items, words)
    counts = Counter(item.kind for item in matching)
    links = [("", f"All {len(matching):,}", not kind, _address(words, ""))]
    links += [
        (name, f"{title} {counts[name]:,}", kind == name, _address(words, name))
        for name, title in KINDS.items()
        if counts[name] or kind == name
    ]
    shown = found[:MOST_SHOWN]
    return {
        "root": str(bench.folder.root),
        "items": shown,
        "num_found": len(found),
        "num_all": len(now.items),
        "words": words,
        "kind": kind,
        "links": links,
        "note": now.note,
        "seen": _seen(shown, len(found)),
        "part": f"/results?{urlencode({'q': words, 'kind': kind})}",
        "has_runs": any(item.kind == "recording" for item in shown),
    }


def _address(words: str, kind: str) -> str:
    given = {name: value for name, value in (("q", words), ("kind", kind)) if value}
    return f"/?{urlencode(given)}" if given else "/"


def _seen(items: list[Item], number: int) -> str:
    told = [(item.id, item.time, item.about) for item in items]
    return hashlib.sha256(repr((told, number)).encode("utf-8", "backslashreplace")).hexdigest()[:16]
