"""The options of TFAdapter: one table, what a script sets, and what is wrong with it."""

from __future__ import annotations

from jumar.tfadapter.options.option import UNKNOWN, Kind, Option, Setting, Style, Unknown, Value
from jumar.tfadapter.options.table import options_of

__all__ = ["UNKNOWN", "Kind", "Option", "Setting", "Style", "Unknown", "Value", "options_of"]
