"""What Jumar found, for people and for programs: HTML, JSON and the terminal.

The renderers know findings and the blocks of a page and nothing else: no rule, and no other room.
"""

from __future__ import annotations

from jumar.report.documents import findings_document, json_text, page_json
from jumar.report.files import write_text
from jumar.report.html import render_html
from jumar.report.progress_bars import progress
from jumar.report.terminal import print_findings, print_page

__all__ = [
    "findings_document",
    "json_text",
    "page_json",
    "print_findings",
    "print_page",
    "progress",
    "render_html",
    "write_text",
]
