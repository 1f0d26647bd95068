"""The page of `jumar compare`."""

from __future__ import annotations

from jumar.show.compare.page.page import compare_page

__all__ = ["compare_page"]
