"""The knowledge bank: what was measured once is not measured again."""

from __future__ import annotations

from jumar.tune.bank.entry import Entry, Tried, by_task, stack_of
from jumar.tune.bank.exchange import export_lines, import_lines
from jumar.tune.bank.explain import Lookup, look_up
from jumar.tune.bank.merging import Merged, foreign
from jumar.tune.bank.neighbours import Neighbour
from jumar.tune.bank.precisions import AskedPrecision, Known, KnownPrecision
from jumar.tune.bank.storage.location import bank_place, built_in_place
from jumar.tune.bank.store import Bank

__all__ = [
    "AskedPrecision",
    "Bank",
    "Entry",
    "Known",
    "KnownPrecision",
    "Lookup",
    "Merged",
    "Neighbour",
    "Tried",
    "bank_place",
    "built_in_place",
    "by_task",
    "export_lines",
    "foreign",
    "import_lines",
    "look_up",
    "stack_of",
]
