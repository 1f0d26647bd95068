"""The workbench: everything that Jumar left in a folder, as pages that a browser shows. `serve` runs the server.

`store` knows what lies in the folder, `data` reads one result in pieces, `work` calculates in the background, `pages`
says what a page holds, `server` lets the browser have it and keeps others out. Nothing in the folder is ever changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.view.server.serving import serve

__all__ = ["serve"]

_HOME = {"serve": "jumar.view.server.serving"}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
