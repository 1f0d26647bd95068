"""`known_errors`: all entries as one table: those of the user, of other distributions, and of Jumar."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jumar.advise.doctor.entries.installed import INSTALLED, built_in, documents
from jumar.advise.doctor.entries.own import own_folders, read_folder, states
from jumar.advise.doctor.entries.parse import parse_entries, parse_table
from jumar.advise.doctor.entries.signature import Signature
from jumar.advise.doctor.entries.table import Table
from jumar.base.text import counted, listing

__all__ = ["Loaded", "built_in_errors", "documents", "known_errors", "load_entries", "parse_entries", "parse_table"]

_MOST_NAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """All entries, and where they are from."""

    table: Table
    folders: tuple[Path, ...] = ()
    """Folders of the user's entries."""
    num_own: int = 0
    """How many entries are the user's."""
    num_installed: int = 0
    """How many entries are of other distributions."""
    replaced: tuple[str, ...] = ()
    """Names of entries that one of the user's stands for."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said about the user's entries; nothing where there are none."""
        if not self.num_own:
            return ()
        where = listing([str(folder) for folder in self.folders], _MOST_NAMES)
        said = f"{counted(self.num_own, 'entry', 'entries')} of your own read from {where}."
        if self.replaced:
            said += f" They stand for entries of the same names: {listing(list(self.replaced), _MOST_NAMES)}."
        return (said,)


def known_errors(folders: Sequence[Path] = ()) -> Table:
    """Return all entries, the user's in `folders` and at the usual places first. Raises InputError for a wrong one."""
    return load_entries(folders).table


def load_entries(folders: Sequence[Path] = ()) -> Loaded:
    """Return all entries and where they are from. Raises InputError for a wrong entry or a folder that is not there."""
    found = own_folders(folders, os.environ)
    return _loaded(found, tuple(state for folder in found for state in states(folder)), INSTALLED.parts())


@functools.cache
def built_in_errors() -> Table:
    """Return the entries that come with Jumar alone. No file of the user is read."""
    return Table(built_in())


@functools.cache
def _loaded(
    folders: tuple[Path, ...], _states: tuple[object, ...], installed: tuple[tuple[Signature, ...], ...]
) -> Loaded:
    """Return the entries; a file that changed is read again, because its state is a part of the key."""
    own: dict[str, Signature] = {}
    replaced: list[str] = []
    for folder in folders:
        for signature in read_folder(folder):
            if signature.name in own:
                replaced.append(signature.name)
            else:
                own[signature.name] = signature
    others = tuple(signature for part in installed for signature in part)
    if not own and not others:
        return Loaded(table=built_in_errors(), folders=folders)
    theirs = (*others, *built_in())
    replaced += [signature.name for signature in theirs if signature.name in own]
    kept = tuple(signature for signature in theirs if signature.name not in own)
    return Loaded(
        table=Table((*own.values(), *kept)),
        folders=folders,
        num_own=len(own),
        num_installed=len(others),
        replaced=tuple(dict.fromkeys(replaced)),
    )
