"""Known errors as data: one entry an error, and the table that finds them in a line."""

from __future__ import annotations

from jumar.advise.doctor.entries.signature import Kind, Role, Signature
from jumar.advise.doctor.entries.store import documents, known_errors, parse_entries, parse_table
from jumar.advise.doctor.entries.table import Match, Searcher, Table

__all__ = [
    "Kind",
    "Match",
    "Role",
    "Searcher",
    "Signature",
    "Table",
    "documents",
    "known_errors",
    "parse_entries",
    "parse_table",
]
