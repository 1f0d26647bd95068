"""A listing keeps its lines, in the page and on the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from jumar.show import page_json, print_page, render_html
from jumar.show.blocks.page import Listing, Page, Section, Verdict

TEXT = "Traceback:\n  File <train.py>\nValueError: no\n"


def page() -> Page:
    block = Listing(title="What it said", text=TEXT)
    return Page(
        title="t",
        verdict=Verdict(status="failed", headline="It stopped."),
        actions=[],
        sections=[Section(title="Run", blocks=[block])],
    )


def test_the_lines_stand_escaped_and_unchanged_in_the_page() -> None:
    assert "Traceback:\n  File &lt;train.py&gt;\nValueError: no\n</code></pre>" in render_html(page())


def test_the_json_names_its_kind() -> None:
    assert page_json(page())["sections"][0]["blocks"][0] == {"kind": "listing", "title": "What it said", "text": TEXT}


def test_the_terminal_shows_its_lines_apart() -> None:
    console = Console(file=io.StringIO(), width=80)
    print_page(page(), console=console)
    assert "\n  ValueError: no\n" in console.file.getvalue()  # type: ignore[attr-defined]
