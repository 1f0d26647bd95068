"""The options of TFAdapter: one table, what a script sets, and what is wrong with it."""

from __future__ import annotations

from jumar.tfadapter.options.option import Kind, Option, Setting, Style, Unknown
from jumar.tfadapter.options.table import options_of

__all__ = ["Kind", "Option", "Setting", "Style", "Unknown", "options_of"]
