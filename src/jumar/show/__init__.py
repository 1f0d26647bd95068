"""Everything Jumar shows: the blocks of a page, their views, and the pages and texts of every room.

A page is data (`Page`, made of blocks). `render_html`, `print_page` and `page_json` show it; each room's pages and
terminal texts are in the sub-package of its name. The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.show.blocks.documents import findings_document, json_text, page_json
    from jumar.show.html.render import render_html
    from jumar.show.terminal.page import print_findings, print_page
    from jumar.show.terminal.progress_bars import progress

__all__ = ["findings_document", "json_text", "page_json", "print_findings", "print_page", "progress", "render_html"]

_HOME = {
    "findings_document": "jumar.show.blocks.documents",
    "json_text": "jumar.show.blocks.documents",
    "page_json": "jumar.show.blocks.documents",
    "print_findings": "jumar.show.terminal.page",
    "print_page": "jumar.show.terminal.page",
    "progress": "jumar.show.terminal.progress_bars",
    "render_html": "jumar.show.html.render",
}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
