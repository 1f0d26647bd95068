"""`whole_pages`: whether pages are printed with everything that is on them (`--verbose`), or on one screen."""

from __future__ import annotations

from contextvars import ContextVar

whole_pages: ContextVar[bool] = ContextVar("whole_pages", default=False)
