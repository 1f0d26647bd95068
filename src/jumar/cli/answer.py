"""How every command answers: one JSON document on stdout, or a page in a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.base.text.language import translate

if TYPE_CHECKING:
    from jumar.base.findings import Finding
    from jumar.show.blocks.page import Page


def print_document(findings: Iterable[Finding] = (), **extra: Any) -> None:
    """Print one JSON document to stdout: the findings, then `extra` as further keys."""
    from jumar.show import findings_document, json_text

    click.echo(json_text(findings_document(findings, **extra)), nl=False)


def print_answer(answer: Any) -> None:
    """Print a result that has `findings` and `to_json()` as one JSON document."""
    print_document(answer.findings, **{name: value for name, value in answer.to_json().items() if name != "findings"})


def write_page(path: Path | None, page: Page, *, force: bool) -> None:
    """Write a page as HTML to `path`, if there is one, and say so on stderr. Raises OutputError."""
    if path is None:
        return
    from jumar.base.files import write_result
    from jumar.show import render_html

    write_result(path, render_html(page), force=force)
    click.echo(translate(f"Wrote {path}."), err=True)
