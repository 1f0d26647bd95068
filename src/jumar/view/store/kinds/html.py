"""Recognises pages that a command wrote with `--report FILE.html`: they say so in their head."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

from jumar.port.layout import MARKER
from jumar.view.store.folder import Listing
from jumar.view.store.items import Description, Kind, Spotted, State

_HEAD_BYTES = 1200
_BODY_BYTES = 256 << 10
"""The style sheets come first; the verdict follows."""
_GENERATOR = b'<meta name="generator" content="Jumar '
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_VERDICT = re.compile(r'<section class="verdict (fine|attention|failed)"')
_HEADLINE = re.compile(r'<h2 id="verdict">(.*?)</h2>', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_KINDS: dict[str, Kind] = {
    "Accuracy of two runs": "comparison", "Overflow": "overflow", "Tuning": "tuning", "Environment": "doctor",
    "Logs": "doctor", "Bottlenecks": "advice",
}  # fmt: skip
"""Kind by the title's first words."""


def spot(listing: Listing) -> Iterator[Spotted]:
    """Yield the saved pages in a folder; a port shows its own."""
    if MARKER in listing.files:
        return
    for name in sorted(listing.files):
        path = listing.path / name
        if name.endswith((".html", ".htm")) and is_ours(path):
            yield Spotted(kind="report", path=path, form="html", watched=(path,), describe=describe)


def is_ours(path: Path) -> bool:
    """Tell whether a file is a page of Jumar's, by its first bytes."""
    try:
        with path.open("rb") as file:
            return _GENERATOR in file.read(_HEAD_BYTES)
    except OSError:
        return False


def describe(path: Path) -> Description:
    """Describe a page by its title and its verdict."""
    with path.open("rb") as file:
        text = file.read(_BODY_BYTES).decode("utf-8", errors="replace")
    title = _plain(_TITLE, text) or path.name
    verdict, is_whole = _VERDICT.search(text), _ends(path)
    state: State = verdict[1] if verdict is not None else "none"  # type: ignore[assignment]
    headline = _plain(_HEADLINE, text)
    if not is_whole:
        state, headline = "failed", f"The page is cut short. {headline}".strip()
    kind = next((kind for words, kind in _KINDS.items() if title.startswith(words)), None)
    return Description(title=f"{title} ({path.name})", state=state, headline=headline, kind=kind)


def _ends(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 64))
        return b"</html>" in file.read()


def _plain(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return " ".join(unescape(_TAG.sub("", found[1])).split()) if found is not None else ""
