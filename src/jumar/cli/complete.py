"""What the shell completes behind an option or a word: chips, rules, entries, folders of recordings."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

MOST_FOLDERS = 200


def socs(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return the chips whose names begin so, in any case."""
    from jumar.soc.profiles import INSTALLED, SOCS

    names = [*SOCS, *(profile.name for profile in INSTALLED.parts())]
    return [CompletionItem(name) for name in names if name.lower().startswith(begun.lower())]


def rules(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return the rules whose codes or names begin so, each with what it says."""
    from jumar.base.rules import all_rules

    found = [(rule.code, rule) for rule in all_rules()] if begun[:2].upper() in {"", "J", "JM"} else []
    found += [(rule.name, rule) for rule in all_rules()] if begun and begun[:2].upper() != "JM" else []
    return [CompletionItem(word, help=rule.summary) for word, rule in found if word.lower().startswith(begun.lower())]


def guides(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return the guides whose names begin so, each with its title; `guide-` may be left out."""
    from jumar.show.pages.guides.shelf import topics

    known = {one.name.removeprefix("guide-"): one.title for one in topics().values()}
    return [CompletionItem(name, help=title) for name, title in known.items() if name.startswith(begun.lower())]


def entries(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return the doctor's entries whose names begin so, each with its title."""
    from jumar.advise.doctor.entries import known_errors

    known = known_errors().signatures
    return [CompletionItem(one.name, help=one.title) for one in known if one.name.lower().startswith(begun.lower())]


def recordings(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return folders that begin so: recordings first, then others; files of checkpoints are left to the shell."""
    folders = list(_folders(begun))
    own = [one for one in folders if (Path(one) / "run.json").is_file()]
    if own:
        return [CompletionItem(one, help="recording") for one in own]
    return [CompletionItem(begun, type="file")]


def _folders(begun: str) -> Iterable[str]:
    above, _, name = begun.rpartition(os.sep)
    place = Path(above + os.sep) if above or begun.startswith(os.sep) else Path()
    try:
        found = sorted(entry.name for entry in os.scandir(place) if entry.is_dir() and entry.name.startswith(name))
    except OSError:
        return []
    lead = f"{above}{os.sep}" if begun.startswith(os.sep) or above else ""
    return [f"{lead}{one}" for one in found[:MOST_FOLDERS]]
