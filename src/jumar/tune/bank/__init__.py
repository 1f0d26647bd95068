"""The knowledge bank: what was measured once is not measured again."""

from __future__ import annotations

from jumar.tune.bank.entry import Entry, Tried, stack_of
from jumar.tune.bank.explain import Lookup, look_up
from jumar.tune.bank.export import export_lines
from jumar.tune.bank.location import bank_folder, repeat_tune
from jumar.tune.bank.store import Bank

__all__ = [
    "Bank",
    "Entry",
    "Lookup",
    "Tried",
    "bank_folder",
    "export_lines",
    "look_up",
    "repeat_tune",
    "stack_of",
]
