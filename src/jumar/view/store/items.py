"""`Item`: one result in the folder. `Spotted` and `Description`: how a kind of result is recognised and told."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jumar.base.text.digits import Cell

Kind = Literal[
    "port",
    "recording",
    "comparison",
    "overflow",
    "profile",
    "advice",
    "tuning",
    "bank",
    "doctor",
    "checkpoint",
    "report",
]
KINDS: dict[Kind, str] = {
    "port": "Ports",
    "recording": "Recordings",
    "comparison": "Comparisons",
    "overflow": "Overflow",
    "profile": "Profiles",
    "advice": "Advice",
    "tuning": "Tuning",
    "bank": "Banks",
    "doctor": "Doctor",
    "checkpoint": "Checkpoints",
    "report": "Other reports",
}
"""Kinds in the order of the filter, with their names there."""

State = Literal["fine", "attention", "failed", "running", "none"]
STATE_WORDS: dict[State, str] = {
    "fine": "Fine", "attention": "Needs attention", "failed": "Failed", "running": "Not ended", "none": "No verdict",
}  # fmt: skip
"""`running`: it goes on, or was killed; nobody can tell the two apart from the files."""

Form = Literal["folder", "json", "html", "journal", "text"]
"""How a result is kept: it decides which page shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a list says of a result."""

    title: str
    state: State = "none"
    headline: str = ""
    """The verdict, or what is wrong with the files, in one sentence."""
    facts: Sequence[tuple[str, Cell]] = ()
    text: str = ""
    """Further words that a search finds."""
    kind: Kind | None = None
    """The kind, where only reading the file tells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spotted:
    """Something that a kind takes for its own. `describe` reads it; it is called again when `watched` changed."""

    kind: Kind
    path: Path
    form: Form
    watched: Sequence[Path]
    describe: Callable[[Path], Description]
    within: Sequence[str] | None = ()
    """Names of sub-folders that are looked into; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One result. `id` is made of its place in the folder, so that an address holds after a restart."""

    id: str
    kind: Kind
    form: Form
    path: Path
    place: str
    """The path within the folder; `.` for the folder itself."""
    time: float
    """Of the last change, seconds since 1970."""
    about: Description
    stamp: Any
    """Sizes and times of the watched files: another value means other contents."""

    @property
    def words(self) -> str:
        """Everything that a search looks through, in small letters."""
        facts = " ".join(f"{name} {value}" for name, value in self.about.facts)
        about = self.about
        return f"{self.kind} {self.place} {about.title} {about.headline} {facts} {about.text}".lower()


def item_id(place: str, kind: str) -> str:
    """Return the id of the result of a kind at a place."""
    return hashlib.sha256(f"{kind}\0{place}".encode("utf-8", "surrogateescape")).hexdigest()[:12]
