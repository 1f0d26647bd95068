"""The guides that come with Jumar: `topics` lists them, `guide` finds one by its name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jumar.base.errors import InputError
from jumar.base.text.language import chosen

_PACKAGE = Path(__file__).parents[3]
_INSTALLED = _PACKAGE / "guides"
_CHECKOUT = _PACKAGE.parents[1] / "docs"
_PREFIX = "guide-"
_NO_TOPICS = frozenset({"README"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """One page: its name, its title, and its file in the user's language."""

    name: str
    title: str
    path: Path


def topics() -> Mapping[str, Guide]:
    """Return the guides by name. Raises InputError where this installation has none."""
    found = {guide.name: guide for guide in _guides()}
    if not found:
        raise InputError("this installation of Jumar has no guides; install it from a wheel, or from its sources.")
    return found


def guide(name: str) -> Guide:
    """Return the guide of a name: `compare`, `guide-compare` or `docs/guide-compare.md`.

    Raises InputError, with the near names, for one that is not there.
    """
    known = topics()
    asked = name.removeprefix("docs/").removesuffix(".md").lower()
    for one in (asked, f"{_PREFIX}{asked}", asked.removeprefix(_PREFIX)):
        if one in known:
            return known[one]
    words = {one: one for one in known} | {one.removeprefix(_PREFIX): one for one in known}
    near = difflib.get_close_matches(asked, words, n=3) or [one for one in words if asked in one][:3]
    hint = f"Did you mean {' or '.join(near)}?" if near else "`jumar docs` lists all."
    raise InputError(f"there is no guide {name!r}. {hint}")


def folder() -> Path:
    """Return the folder with the guides: in the installed package, or in the checkout that is installed editable."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT


def _guides() -> Iterator[Guide]:
    top = folder()
    for file in sorted([*top.glob("*.md"), *(top / "tutorials").glob("*.md")]):
        if file.stem in _NO_TOPICS:
            continue
        chinese = top / "zh" / file.name
        path = chinese if chosen() == "zh" and chinese.is_file() else file
        yield Guide(name=file.stem, title=_title(path), path=path)


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return next((line[2:].strip() for line in file if line.startswith("# ")), path.stem)
