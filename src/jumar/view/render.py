"""Turns what a page holds into HTML: the workbench's templates, with the blocks of `jumar.show` in them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader

from jumar import __version__
from jumar.show.html import profiles
from jumar.show.html.render import environment_with
from jumar.view.store.items import KINDS, STATE_WORDS

STATIC = {
    "page.css": "jumar.show.html:templates/page.css",
    "profiles.css": f"jumar.show.html:templates/{profiles.SHEET}",
    "page.js": "jumar.show.html:templates/page.js",
    "trace.js": "jumar.show.html:templates/trace.js",
    "flame.js": "jumar.show.html:templates/flame.js",
    "view.css": "jumar.view:static/view.css",
    "view.js": "jumar.view:static/view.js",
    "tree.js": "jumar.view:static/tree.js",
}
"""The only files that are served by a name, and where they lie in the package."""
TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


@cache
def static(name: str) -> bytes | None:
    """Return a style sheet or script; None for a name that is none."""
    place = STATIC.get(name)
    if place is None:
        return None
    package, _, path = place.partition(":")
    return files(package).joinpath(path).read_bytes()


@cache
def _environment() -> Environment:
    loader = ChoiceLoader([PackageLoader("jumar.view"), PackageLoader("jumar.show.html")])
    environment = environment_with(loader)
    environment.globals |= {"version": __version__, "state_words": STATE_WORDS, "kind_names": KINDS}
    environment.filters |= {"moment": moment}
    return environment


def moment(seconds: float) -> str:
    """Return a time as `2026-11-28 16:35:31`, in the zone of this machine."""
    return datetime.fromtimestamp(seconds).isoformat(" ", "seconds") if seconds else "–"


def rendered(template: str, context: Mapping[str, Any]) -> str:
    """Return a page, or a part of one, as HTML. Half of a surrogate pair in a name is spelled."""
    text = _environment().get_template(template).render(**context).strip()
    return text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n"
