"""`Bench`: what all pages work with: the folder, the catalogue, the jobs, and the open tables of rows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from jumar.view.data.rows import RowTable, open_table
from jumar.view.store.catalogue import Catalogue
from jumar.view.store.folder import Folder
from jumar.view.store.items import Item
from jumar.view.work import Jobs

MOST_TABLES = 8


class Bench:
    """The state of one server. Safe for several threads."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.catalogue = Catalogue(folder)
        self.jobs = Jobs()
        self._tables: OrderedDict[tuple[str, object], RowTable] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path) -> Bench:
        """Open a folder. Raises InputError for what is none."""
        return cls(Folder(folder))

    def rows(self, item: Item) -> RowTable:
        """Return the rows of a recording, opened anew where its files changed; damage that is known stays known."""
        key = (item.id, item.stamp)
        with self._lock:
            table = self._tables.get(key)
            if table is None:
                table = self._tables[key] = open_table(item.path, self.folder.holds)
                table.begin_check()
                while len(self._tables) > MOST_TABLES:
                    self._tables.popitem(last=False)
            self._tables.move_to_end(key)
        return table
