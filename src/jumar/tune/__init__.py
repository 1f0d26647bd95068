"""Operator tuning: a recording in; policies measured faster on this machine, kept in a bank that never slips back.

tasks → candidates → measured gate → knowledge bank → result file
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.lazy import loader

if TYPE_CHECKING:
    from jumar.tune.bank import Bank, bank_place
    from jumar.tune.errors import BankError, TuneError
    from jumar.tune.machine import Machine, this_machine
    from jumar.tune.options import TuneOptions
    from jumar.tune.outcome import TuneResult
    from jumar.tune.tuner import tune

__all__ = [
    "Bank",
    "BankError",
    "Machine",
    "TuneError",
    "TuneOptions",
    "TuneResult",
    "bank_place",
    "this_machine",
    "tune",
]

_HOME = {
    "Bank": "jumar.tune.bank",
    "BankError": "jumar.tune.errors",
    "Machine": "jumar.tune.machine",
    "TuneError": "jumar.tune.errors",
    "TuneOptions": "jumar.tune.options",
    "TuneResult": "jumar.tune.outcome",
    "bank_place": "jumar.tune.bank",
    "this_machine": "jumar.tune.machine",
    "tune": "jumar.tune.tuner",
}

__getattr__ = loader(__name__, __all__, _HOME)
