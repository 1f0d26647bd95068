"""`Bench`: what all pages work with: the folder, the catalogue, the jobs, and the open tables of rows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from jumar.view.data.rows import RowTable, step_files
from jumar.view.store.catalogue import Catalogue
from jumar.view.store.folder import Folder
from jumar.view.store.items import Item
from jumar.view.work import Jobs

MOST_TABLES = 6
"""Recordings whose index is kept, 12 bytes a row each."""


class Bench:
    """The state of one server. Safe for several threads."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.catalogue = Catalogue(folder)
        self.jobs = Jobs()
        self._tables: OrderedDict[str, RowTable] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path) -> Bench:
        """Open a folder. Raises InputError for what is none."""
        return cls(Folder(folder))

    def rows(self, item: Item) -> RowTable:
        """Return the rows of a recording with the files that it has now."""
        with self._lock:
            table = self._tables.setdefault(item.id, RowTable(item.path))
            self._tables.move_to_end(item.id)
            while len(self._tables) > MOST_TABLES:
                self._tables.popitem(last=False)
        table.refresh(step_files(item.path, self.folder.holds))
        return table
