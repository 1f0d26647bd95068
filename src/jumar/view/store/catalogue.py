"""`Catalogue`: the results in a folder, found again whenever somebody looks, and described once while they stay."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.base.errors import JumarError
from jumar.view.store.folder import MOST_ENTRIES, Folder, Listing, entered
from jumar.view.store.items import Description, Item, Kind, Spotted, item_id
from jumar.view.store.kinds import documents, folders, html, tuning

AGE_S = 1.0
"""A scan younger than this is not repeated: several windows may ask."""
_KNOWN = (folders.spot, tuning.spot, documents.spot, html.spot)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The results at one moment, the newest first. `version` changes with them."""

    items: tuple[Item, ...]
    version: int
    note: str = ""
    """What was not looked at."""


class Catalogue:
    """Finds and describes results. Safe for several threads."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, Path], tuple[Any, Item]] = {}
        self._now = Snapshot((), 0)
        self._looked = -AGE_S

    def look(self, *, fresh: bool = False) -> Snapshot:
        """Return what is there, from a scan that is younger than `AGE_S` unless it must be `fresh`."""
        with self._lock:
            if fresh or time.monotonic() - self._looked >= AGE_S:
                self._scan()
                self._looked = time.monotonic()
            return self._now

    def find(self, item: str) -> Item | None:
        """Return the result with an id, described anew where it changed; None where there is none."""
        return next((one for one in self.look().items if one.id == item), None)

    def _scan(self) -> None:
        seen: dict[tuple[str, Path], tuple[Any, Item]] = {}
        left = MOST_ENTRIES
        waiting = [self.folder.root]
        while waiting and left > 0:
            listing = self.folder.listing(waiting.pop())
            left -= 1 + len(listing.files)
            spotted = list(self._spotted(listing))
            for one in spotted:
                key = (one.kind, one.path)
                stamp = _stamp(one.watched)
                known = self._seen.get(key)
                seen[key] = known if known is not None and known[0] == stamp else (stamp, self._item(one, stamp))
            own = [one for one in spotted if one.path == listing.path]
            within = frozenset(name for one in own for name in one.within or ()) if own else None
            waiting += reversed(list(entered(listing, None if any(one.within is None for one in own) else within)))
        note = f"Only the first {MOST_ENTRIES:,} files of this folder were looked at." if waiting else ""
        items = tuple(sorted((item for _, item in seen.values()), key=lambda item: (-item.time, item.place)))
        if items != self._now.items or note != self._now.note:
            self._now = Snapshot(items, self._now.version + 1, note)
        self._seen = seen

    def _spotted(self, listing: Listing) -> Iterator[Spotted]:
        for spot in _KNOWN:
            yield from spot(listing)

    def _item(self, one: Spotted, stamp: Any) -> Item:
        place, about = self.folder.place(one.path), _described(one)
        return Item(
            id=item_id(place, one.kind), kind=about.kind or one.kind, form=one.form, path=one.path, place=place,
            time=max((mtime / 1e9 for mtime, _ in stamp if mtime), default=0.0), about=about, stamp=stamp,
        )  # fmt: skip


def _described(one: Spotted) -> Description:
    try:
        return one.describe(one.path)
    except (JumarError, OSError) as error:
        return Description(title=one.path.name, state="failed", headline=f"It cannot be read: {error}")
    except Exception as error:  # noqa: BLE001 - a damaged file of any kind must not hide the others
        return Description(
            title=one.path.name, state="failed", headline=f"It is damaged, or was changed by hand ({error!r:.160})."
        )


def _stamp(paths: Sequence[Path]) -> tuple[tuple[int, int], ...]:
    """Return time and size of files; zeros for those that are not there."""
    found = []
    for path in paths:
        try:
            state = path.stat()
            found.append((state.st_mtime_ns, state.st_size))
        except OSError:
            found.append((0, 0))
    return tuple(found)


def search(items: Sequence[Item], words: str = "", kind: Kind | None = None) -> list[Item]:
    """Return the results of a kind in which every one of the words stands, in any letters."""
    wanted = words.lower().split()
    return [
        item for item in items if (kind is None or item.kind == kind) and all(word in item.words for word in wanted)
    ]
