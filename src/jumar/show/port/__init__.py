"""The page of `jumar port`, and the files that show it."""

from __future__ import annotations

from jumar.base.files import write_result
from jumar.port import PortResult
from jumar.show import findings_document, json_text, page_json, render_html
from jumar.show.blocks.page import Page
from jumar.show.port.page import port_page

__all__ = ["port_page", "write_port"]


def write_port(result: PortResult) -> Page:
    """Write `index.html` and `findings.json` of the output folder and return the page. Raises OutputError."""
    page = port_page(result)
    write_result(result.layout.page, render_html(page), force=True)
    document = findings_document(result.findings, page=page_json(page))
    write_result(result.layout.findings, json_text(document), force=True)
    return page
