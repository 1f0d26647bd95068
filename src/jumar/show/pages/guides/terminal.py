"""Guides on the terminal: a list of them, and the text of one."""

from __future__ import annotations

import io
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from jumar.show.blocks.documents import json_text
from jumar.show.terminal.sheet import Sheet

if TYPE_CHECKING:
    from jumar.show.pages.guides.shelf import Guide

_WIDEST = 110


def print_topics(topics: Mapping[str, Guide]) -> None:
    """Print name and title of each guide."""
    sheet = Sheet(None)
    sheet.add(sheet.table(["Topic", "Guide"], [(one.name, one.title) for one in topics.values()], [False, False]))
    sheet.add([Text()])
    sheet.add([sheet.plain("  jumar docs TOPIC prints one; `guide-` may be left out.")])
    sheet.flush()


def topics_json(topics: Mapping[str, Guide]) -> str:
    """Return names and titles as a JSON document."""
    return json_text({"topics": [{"name": one.name, "title": one.title} for one in topics.values()]})


def rendered(text: str, *, is_terminal: bool) -> str:
    """Return a guide for the terminal, or its Markdown for a pipe."""
    if not is_terminal:
        return text
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    console.print(Markdown(text, hyperlinks=False))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
