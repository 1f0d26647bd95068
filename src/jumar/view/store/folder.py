"""`Folder`: the one place from which anything is read. Links that lead out of it are not followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jumar.base.errors import InputError

MOST_ENTRIES = 300_000
"""Entries of all folders together that one scan looks at; the list says when there are more."""
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})


@dataclass(frozen=True, slots=True)
class Listing:
    """The names in one folder, links out of the root left out."""

    path: Path
    folders: frozenset[str]
    files: frozenset[str]


class Folder:
    """A folder and what is below it. Raises InputError for what is no folder or cannot be read."""

    def __init__(self, root: Path) -> None:
        try:
            self.root = root.resolve(strict=True)
            is_readable = os.access(self.root, os.R_OK | os.X_OK)
        except (OSError, RuntimeError) as error:
            raise InputError(f"{root} is not there. Name the folder that holds results of Jumar.") from error
        if not self.root.is_dir() or not is_readable:
            raise InputError(f"{root} must be a folder that can be read. Name the one that holds results of Jumar.")

    def place(self, path: Path) -> str:
        """Return a path within the folder as text."""
        return path.relative_to(self.root).as_posix()

    def holds(self, path: Path) -> bool:
        """Tell whether a path, all links followed, lies in the folder."""
        try:
            return path.resolve(strict=True).is_relative_to(self.root)
        except (OSError, RuntimeError, ValueError):
            return False

    def listing(self, folder: Path) -> Listing:
        """Return what is in one folder; nothing of one that cannot be read."""
        folders: set[str] = set()
        files: set[str] = set()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink() and not self.holds(Path(entry.path)):
                        continue
                    (folders if entry.is_dir() else files).add(entry.name)
        except OSError:
            pass
        return Listing(folder, frozenset(folders), frozenset(files))


def entered(listing: Listing, within: frozenset[str] | None) -> Iterator[Path]:
    """Yield the sub-folders to look into: no hidden ones, no packages, no links (their target is seen itself)."""
    for name in sorted(listing.folders if within is None else listing.folders & within):
        path = listing.path / name
        if not name.startswith(".") and name not in _SKIPPED and not path.is_symlink():
            yield path
